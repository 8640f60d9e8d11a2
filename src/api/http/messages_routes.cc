// POST /v1/messages and /v1/messages/count_tokens.
#include "api/http/api_state.h"
#include "api/http/call_options.h"
#include "api/http/event_mapping.h"
#include "api/openai/messages_request.h"
#include "api/openai/messages_response.h"

namespace pagoda::http {
namespace {

// Adds the header in which clients of this API look for the request's id.
class NamingWriter final : public net::ResponseWriter {
 public:
  NamingWriter(std::shared_ptr<net::ResponseWriter> writer, std::string request_id)
      : writer_(std::move(writer)), request_id_(std::move(request_id)) {}

  void respond(int status, net::Headers headers, std::string body) override {
    writer_->respond(status, named(std::move(headers)), std::move(body));
  }
  void begin_stream(int status, net::Headers headers) override {
    writer_->begin_stream(status, named(std::move(headers)));
  }
  void write(std::string data) override { writer_->write(std::move(data)); }
  void end_stream() override { writer_->end_stream(); }
  bool closed() const override { return writer_->closed(); }
  size_t pending_bytes() const override { return writer_->pending_bytes(); }
  void on_close(std::function<void()> callback) override { writer_->on_close(std::move(callback)); }
  std::shared_ptr<Executor> executor() override { return writer_->executor(); }

 private:
  net::Headers named(net::Headers headers) const {
    headers.emplace_back("request-id", request_id_);
    return headers;
  }

  const std::shared_ptr<net::ResponseWriter> writer_;
  const std::string request_id_;
};

void respond_messages_error(net::ResponseWriter& response, const Error& error) {
  const HttpError answer = http_error(error);
  response.respond(answer.status, error_headers(answer),
                   openai::messages_error_json(answer.status, answer.body));
}

Result<void> handle_messages(ApiState& state, const net::HttpRequest& request,
                             const std::shared_ptr<net::ResponseWriter>& response) {
  auto wanted = PAGODA_TRY(openai::parse_messages_request(request.body, state.parse_options()));
  const openai::CommonFields& fields = wanted.chat.common;
  std::vector<service::GenerationRequest> prompts = {generation_request(fields)};
  prompts.front().prompt = service::ChatPrompt{std::move(wanted.chat.context_json)};
  CallOptions call = call_options(request, fields);
  call.respond_error = respond_messages_error;
  openai::MessagesOptions options;
  options.common = response_options(state, request, fields, "msg_");
  options.max_tokens = fields.default_max_tokens.value_or(0);
  options.omit_thinking = wanted.omit_thinking;
  call.builder =
      openai::make_messages_builder(std::move(options), openai::make_output_parser(wanted.chat.parsing));
  start_call(state, std::move(call), response, std::move(prompts));
  return {};
}

Result<void> handle_count_tokens(ApiState& state, const net::HttpRequest& request,
                                 const std::shared_ptr<net::ResponseWriter>& response) {
  auto wanted = PAGODA_TRY(openai::parse_count_tokens_request(request.body, state.parse_options()));
  const auto encoded =
      PAGODA_TRY(state.service().encode(service::ChatPrompt{std::move(wanted.chat.context_json)}));
  respond_json(*response, openai::token_count_json(static_cast<int64_t>(encoded.ids.size())));
  return {};
}

void add_route(const std::shared_ptr<ApiState>& state, net::HttpServer& server, const char* path, Work work) {
  net::Handler handler = on_text_pool(state, work, respond_messages_error);
  server.route("POST", path,
               [handler = std::move(handler)](net::HttpRequest request,
                                              std::shared_ptr<net::ResponseWriter> response) {
                 auto named = std::make_shared<NamingWriter>(std::move(response), request.request_id);
                 handler(std::move(request), std::move(named));
               });
}

}  // namespace

void register_messages_routes(const std::shared_ptr<ApiState>& state, net::HttpServer& server) {
  add_route(state, server, "/v1/messages", handle_messages);
  add_route(state, server, "/v1/messages/count_tokens", handle_count_tokens);
}

}  // namespace pagoda::http
