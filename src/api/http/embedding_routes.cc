// POST /v1/embeddings, /rerank and /score.
#include <algorithm>
#include <numeric>
#include <span>

#include "api/http/api_state.h"
#include "api/http/call_options.h"
#include "api/openai/embedding_request.h"
#include "api/openai/embedding_response.h"
#include "service/embedding_service.h"

namespace pagoda::http {
namespace {

using Response = std::shared_ptr<net::ResponseWriter>;

Result<service::EmbeddingService*> embeddings(const ApiState& state) {
  if (state.model().embeddings != nullptr) return state.model().embeddings;
  return make_error(
      ErrorKind::kInvalidArgument,
      "This server generates text and makes no embeddings; to serve the model's embeddings, start "
      "it with --runner pooling (or --task embed).",
      "model", "model_not_supported");
}

openai::EmbeddingHead head_of(const ApiState& state, const net::HttpRequest& request,
                              const openai::EmbeddingFields& fields, const char* prefix) {
  return {prefix + request.request_id, unix_seconds(),
          fields.model.empty() ? state.model().names.front() : fields.model, 0};
}

net::Headers headers_of(const net::HttpRequest& request, const openai::EmbeddingFields& fields) {
  openai::CommonFields common;
  common.unknown_fields = fields.unknown_fields;
  return call_options(request, common).headers;
}

// Answers with what `render` makes of the vectors. A client that has gone ends the work.
template <class Render>
Result<void> answer(service::EmbeddingService& service, const service::EmbeddingRequest& wanted,
                    const Response& response, net::Headers headers, Render render) {
  const uint64_t id =
      PAGODA_TRY(service.embed(wanted, [response, headers = std::move(headers),
                                        render = std::move(render)](Result<service::EmbeddingAnswer> result) {
        if (!result) return respond_error(*response, result.error());
        respond_json(*response, render(*result), headers);
      }));
  response->on_close([&service, id] { service.cancel(id); });
  return {};
}

// The texts of a field of the request.
struct Texts {
  const char* param;
  std::span<const std::string> list;
};

service::EmbeddingRequest request_of_texts(const Texts& first, const Texts& second,
                                           const openai::EmbeddingFields& fields) {
  service::EmbeddingRequest request;
  for (const Texts* texts : {&first, &second}) {
    for (const std::string& text : texts->list) request.inputs.emplace_back(text);
  }
  request.first_param = first.param;
  request.num_first = first.list.size();
  request.param = second.param;
  request.truncate_prompt_tokens = fields.truncate_prompt_tokens;
  return request;
}

Result<void> handle_embeddings(ApiState& state, const net::HttpRequest& request, const Response& response) {
  service::EmbeddingService* const service = PAGODA_TRY(embeddings(state));
  auto wanted = PAGODA_TRY(openai::parse_embedding_request(request.body, state.parse_options()));
  service::EmbeddingRequest work;
  work.inputs.assign(std::make_move_iterator(wanted.inputs.begin()),
                     std::make_move_iterator(wanted.inputs.end()));
  work.background = request.background;
  work.add_special_tokens = wanted.add_special_tokens;
  work.truncate_prompt_tokens = wanted.common.truncate_prompt_tokens;
  work.dimensions = wanted.dimensions;
  const openai::EmbeddingHead head = head_of(state, request, wanted.common, "embd-");
  return answer(*service, work, response, headers_of(request, wanted.common),
                [head, base64 = wanted.base64](const service::EmbeddingAnswer& result) {
                  openai::EmbeddingHead full = head;
                  full.total_tokens = result.total_tokens();
                  return openai::embedding_json(full, result.vectors, base64);
                });
}

// The best documents, ties in their order.
std::vector<openai::RankedDocument> rank(const service::EmbeddingAnswer& result,
                                         const openai::RerankRequest& wanted) {
  std::vector<openai::RankedDocument> ranked(wanted.documents.size());
  for (size_t i = 0; i < ranked.size(); ++i) {
    ranked[i] = {i, service::cosine(result.vectors[0], result.vectors[i + 1]),
                 wanted.return_documents ? &wanted.documents[i] : nullptr};
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  ranked.resize(wanted.top_n);
  return ranked;
}

Result<void> handle_rerank(ApiState& state, const net::HttpRequest& request, const Response& response) {
  service::EmbeddingService* const service = PAGODA_TRY(embeddings(state));
  auto wanted = PAGODA_TRY(openai::parse_rerank_request(request.body, state.parse_options()));
  auto work = request_of_texts({"query", {&wanted.query, 1}}, {"documents", wanted.documents}, wanted.common);
  work.background = request.background;
  const openai::EmbeddingHead head = head_of(state, request, wanted.common, "rerank-");
  net::Headers headers = headers_of(request, wanted.common);
  return answer(*service, work, response, std::move(headers),
                [head, wanted = std::move(wanted)](const service::EmbeddingAnswer& result) {
                  openai::EmbeddingHead full = head;
                  full.total_tokens = result.total_tokens();
                  return openai::rerank_json(full, rank(result, wanted));
                });
}

Result<void> handle_score(ApiState& state, const net::HttpRequest& request, const Response& response) {
  service::EmbeddingService* const service = PAGODA_TRY(embeddings(state));
  const auto wanted = PAGODA_TRY(openai::parse_score_request(request.body, state.parse_options()));
  const size_t num_first = wanted.first.size();
  auto work = request_of_texts({"text_1", wanted.first}, {"text_2", wanted.second}, wanted.common);
  work.background = request.background;
  const openai::EmbeddingHead head = head_of(state, request, wanted.common, "score-");
  return answer(*service, work, response, headers_of(request, wanted.common),
                [head, num_first](const service::EmbeddingAnswer& result) {
                  openai::EmbeddingHead full = head;
                  full.total_tokens = result.total_tokens();
                  std::vector<double> scores;
                  for (size_t i = num_first; i < result.vectors.size(); ++i) {
                    const size_t other = num_first == 1 ? 0 : i - num_first;
                    scores.push_back(service::cosine(result.vectors[other], result.vectors[i]));
                  }
                  return openai::score_json(full, scores);
                });
}

}  // namespace

void register_embedding_routes(const std::shared_ptr<ApiState>& state, net::HttpServer& server) {
  for (const char* const path : {"/v1/embeddings", "/embeddings"}) {
    server.route("POST", path, on_text_pool(state, handle_embeddings));
  }
  for (const char* const path : {"/rerank", "/v1/rerank", "/v2/rerank"}) {
    server.route("POST", path, on_text_pool(state, handle_rerank));
  }
  for (const char* const path : {"/score", "/v1/score"}) {
    server.route("POST", path, on_text_pool(state, handle_score));
  }
}

}  // namespace pagoda::http
