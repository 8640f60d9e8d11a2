// GET /openapi.json.
#include <memory>
#include <string>

#include "api/http/api_state.h"
#include "api/openai/contract.h"

namespace pagoda::http {

void register_openapi_route(const std::shared_ptr<ApiState>& state, net::HttpServer& server) {
  const auto document =
      std::make_shared<const std::string>(openai::openapi_document(state->options().version));
  server.route("GET", "/openapi.json",
               [document](const net::HttpRequest&, const std::shared_ptr<net::ResponseWriter>& response) {
                 respond_json(*response, *document);
               });
}

}  // namespace pagoda::http
