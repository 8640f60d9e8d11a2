// Routes that only tell: models, health, version, metrics, blocks.
#include <algorithm>
#include <string>
#include <string_view>

#include "api/http/api_state.h"
#include "api/http/error_table.h"
#include "api/http/query.h"
#include "api/openai/json_text.h"
#include "api/openai/response.h"

namespace pagoda::http {
namespace {

using Response = std::shared_ptr<net::ResponseWriter>;
using State = std::shared_ptr<ApiState>;

constexpr std::string_view kModelsPath = "/v1/models/";

openai::ModelCard model_card(const ApiState& state, const std::string& name) {
  return {name, state.created(), state.service().max_model_len(), state.model().quantization};
}

void list_models(const ApiState& state, net::ResponseWriter& response) {
  std::vector<openai::ModelCard> cards;
  for (const std::string& name : state.model().names) cards.push_back(model_card(state, name));
  respond_json(response, openai::model_list_json(cards));
}

void show_model(const ApiState& state, const net::HttpRequest& request, net::ResponseWriter& response) {
  // Clients escape the slash of "org/model".
  const std::string name = percent_decoded(std::string_view(request.path).substr(kModelsPath.size()));
  const auto& names = state.model().names;
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return respond_error(response,
                         make_error(ErrorKind::kNotFound, "The model '" + name + "' does not exist.", "model",
                                    "model_not_found"));
  }
  respond_json(response, openai::model_json(model_card(state, name)));
}

void show_health(const ApiState& state, net::ResponseWriter& response) {
  if (const auto error = state.unavailable()) return respond_error(response, *error);
  respond_json(response, openai::status_json("ready"));
}

void show_blocks(const ApiState& state, net::ResponseWriter& response) {
  const engine::BlocksSnapshot blocks = state.service().debug_blocks();
  openai::Json requests = openai::Json::array();
  for (const auto& request : blocks.requests) {
    requests.push_back({{"id", request.id.value},
                        {"state", request.state},
                        {"choices", request.choices},
                        {"prompt_tokens", request.prompt_tokens},
                        {"output_tokens", request.output_tokens},
                        {"blocks", request.blocks}});
  }
  respond_json(response, openai::dump_json({{"total", blocks.total},
                                            {"used", blocks.used},
                                            {"free", blocks.free},
                                            {"cached", blocks.cached},
                                            {"block_size", blocks.block_size},
                                            {"requests", std::move(requests)}}));
}

// A handler for routes that need the model but work while draining, too.
template <class F>
net::Handler with_model(State state, F show) {
  return [state = std::move(state), show](const net::HttpRequest& request, const Response& response) {
    if (!state->loaded()) return respond_error(*response, *state->unavailable());
    show(*state, request, *response);
  };
}

}  // namespace

void register_info_routes(const State& state, net::HttpServer& server) {
  server.route("GET", "/v1/models",
               with_model(state, [](const ApiState& s, const net::HttpRequest&, auto& response) {
                 list_models(s, response);
               }));
  server.route("GET", "/v1/models/{id}", with_model(state, show_model));
  server.route("GET", "/debug/blocks",
               with_model(state, [](const ApiState& s, const net::HttpRequest&, auto& response) {
                 show_blocks(s, response);
               }));
  for (const char* path : {"/health", "/health/ready"}) {
    server.route("GET", path, [state](const net::HttpRequest&, const Response& response) {
      show_health(*state, *response);
    });
  }
  server.route("GET", "/health/live", [](const net::HttpRequest&, const Response& response) {
    respond_json(*response, openai::status_json("live"));
  });
  server.route("GET", "/version", [state](const net::HttpRequest&, const Response& response) {
    respond_json(*response, openai::version_json(state->options().version));
  });
  server.route("GET", "/metrics", [state](const net::HttpRequest&, const Response& response) {
    auto text = state->metrics_text();
    if (!text)
      return respond_error(*response, make_error(ErrorKind::kNotFound, "This server has no metrics."));
    response->respond(200, {{"Content-Type", std::string(telemetry::Metrics::kContentType)}},
                      std::move(*text));
  });
}

}  // namespace pagoda::http
