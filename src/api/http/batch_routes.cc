// /v1/batches.
#include <utility>

#include "api/http/stored_routes.h"

namespace pagoda::http {
namespace {

constexpr std::string_view kBatchesPath = "/v1/batches/", kCancelEnd = "/cancel";
constexpr PageLimits kPageLimits{"batch_", 100, 20};

Result<void> create_batch(const StoredCall& call) {
  const auto wanted =
      PAGODA_TRY(openai::parse_create_batch_request(call.request.body, call.state.options().strict_params));
  auto batch = PAGODA_TRY(call.batches.manager().create(wanted));
  respond_json(*call.response, openai::batch_json(batch),
               unknown_field_headers(call.request, wanted.unknown_fields));
  return {};
}

Result<void> list_batches(const StoredCall& call) {
  const auto page = PAGODA_TRY(page_of(call.batches.store().batches(), Query(call.request.query), kPageLimits,
                                       [&](const openai::BatchObject& batch) {
                                         return openai::batch_json(call.batches.manager().view(batch));
                                       }));
  respond_json(*call.response, openai::list_json(page));
  return {};
}

Result<void> show_batch(const StoredCall& call) {
  auto batch = PAGODA_TRY(call.batches.store().batch(call.id(kBatchesPath)));
  respond_json(*call.response, openai::batch_json(call.batches.manager().view(std::move(batch))));
  return {};
}

Result<void> cancel_batch(const StoredCall& call) {
  auto batch = PAGODA_TRY(call.batches.manager().cancel(call.id(kBatchesPath, kCancelEnd)));
  respond_json(*call.response, openai::batch_json(call.batches.manager().view(std::move(batch))));
  return {};
}

}  // namespace

void register_batch_routes(const std::shared_ptr<ApiState>& state,
                           const std::shared_ptr<BatchService>& batches, net::HttpServer& server) {
  const auto route = [&](const char* method, const char* path, StoredWork work) {
    server.route(method, path, on_file_thread(state, batches, work));
  };
  route("POST", "/v1/batches", create_batch);
  route("GET", "/v1/batches", list_batches);
  route("GET", "/v1/batches/{id}", show_batch);
  route("POST", "/v1/batches/{id}/cancel", cancel_batch);
}

}  // namespace pagoda::http
