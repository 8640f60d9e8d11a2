#include "api/http/batch_check.h"

#include <fmt/format.h>

namespace pagoda::http {
namespace {

LineProblem problem(const char* code, std::string message, const char* param) {
  return {code, make_error(ErrorKind::kInvalidArgument, std::move(message), param)};
}

}  // namespace

bool can_batch(const net::HttpServer& server, std::string_view url) {
  return url.starts_with("/v1/") && !url.starts_with("/v1/files") && !url.starts_with("/v1/batches") &&
         server.has_route("POST", url);
}

std::optional<LineProblem> LineCheck::check(const openai::BatchLine& line) {
  if (line.error) return LineProblem{"invalid_line", *line.error};
  if (!endpoint_.empty() && line.url != endpoint_) {
    return problem("mismatched_endpoint",
                   fmt::format("url is not {}, which is the endpoint of this batch.", endpoint_), "url");
  }
  if (!can_batch(server_, line.url)) {
    return problem("invalid_url",
                   "url is not the path of a route that batches can use, as /v1/chat/completions.", "url");
  }
  if (!seen_.insert(line.custom_id).second) {
    return problem("duplicate_custom_id", "custom_id is that of an earlier line; each line needs its own.",
                   "custom_id");
  }
  return std::nullopt;
}

}  // namespace pagoda::http
