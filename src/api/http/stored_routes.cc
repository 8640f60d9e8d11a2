#include "api/http/stored_routes.h"

#include <exception>
#include <utility>

#include "api/http/call_options.h"
#include "api/http/error_table.h"
#include "base/log.h"

namespace pagoda::http {
namespace {

// What runs while the server drains can still be looked at.
std::optional<Error> unavailable(const ApiState& state, const net::HttpRequest& request) {
  if (request.method != "POST" && state.loaded()) return std::nullopt;
  return state.unavailable();
}

void run_work(const StoredCall& call, StoredWork work) {
  Result<void> done;
  try {
    done = work(call);
  } catch (const std::exception& failure) {
    done = make_error(ErrorKind::kInternal, "The request failed because of a bug in the server.");
    log::error("{} {} failed: {}", call.request.method, call.request.path, failure.what());
  }
  if (!done) respond_error(*call.response, done.error());
}

}  // namespace

net::Handler on_file_thread(std::shared_ptr<ApiState> state, std::shared_ptr<BatchService> batches,
                            StoredWork work) {
  return [state = std::move(state), batches = std::move(batches), work](
             net::HttpRequest request, std::shared_ptr<net::ResponseWriter> response) {
    if (batches == nullptr) {
      return respond_error(*response, make_error(ErrorKind::kUnimplemented,
                                                 "This server keeps no files and batches: start it with "
                                                 "--batch-dir and a folder to have them."));
    }
    if (const auto error = unavailable(*state, request)) return respond_error(*response, *error);
    auto shared = std::make_shared<const net::HttpRequest>(std::move(request));
    // A plain pointer, as the thread must not be the last to let go of what owns it.
    batches->files().post(
        [state, service = batches.get(), shared = std::move(shared), response = std::move(response), work] {
          run_work({*state, *service, *shared, response}, work);
          return true;
        });
  };
}

net::Headers unknown_field_headers(const net::HttpRequest& request, const std::vector<std::string>& names) {
  openai::CommonFields fields;
  fields.unknown_fields = names;
  return call_options(request, fields).headers;
}

}  // namespace pagoda::http
