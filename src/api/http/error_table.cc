#include "api/http/error_table.h"

#include <string_view>

#include "api/http/api.h"
#include "api/http/disk_files.h"
#include "api/openai/messages_response.h"

namespace pagoda::http {
namespace {

// A queue empties in seconds; loading a model and replacing a draining server take longer.
constexpr int kRetryBusy = 1;
constexpr int kRetryElsewhere = 5;

struct Row {
  int status;
  const char* type;
  const char* code;  // used when the error brings none
  int retry_after_s;
};

constexpr Row kStorageFullRow{507, "server_error", kStorageFull, 0};

Row row_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return {400, "invalid_request_error", "", 0};
    case ErrorKind::kContextLengthExceeded:
      return {400, "invalid_request_error", "context_length_exceeded", 0};
    case ErrorKind::kNotFound:
      return {404, "invalid_request_error", "not_found", 0};
    case ErrorKind::kOverloaded:
      return {503, "server_overloaded", "server_overloaded", kRetryBusy};
    case ErrorKind::kLoading:
      return {503, "loading", "loading", kRetryElsewhere};
    case ErrorKind::kShuttingDown:
      return {503, "shutting_down", "shutting_down", kRetryElsewhere};
    case ErrorKind::kDeadlineExceeded:
      return {504, "timeout", "timeout", 0};
    case ErrorKind::kCancelled:
      // Nobody is left to read it; the number is nginx's for "client closed request" and shows in metrics.
      return {499, "cancelled", "cancelled", 0};
    case ErrorKind::kUnimplemented:
      return {501, "not_implemented", "not_implemented", 0};
    case ErrorKind::kCorruptFile:
    case ErrorKind::kUnsupportedModel:
    case ErrorKind::kIo:
    case ErrorKind::kInternal:
      break;
  }
  return {500, "server_error", "server_error", 0};
}

Row row_of_transport(int status) {
  switch (status) {
    case 404:
      return {status, "invalid_request_error", "not_found", 0};
    case 405:
      return {status, "invalid_request_error", "method_not_allowed", 0};
    case 408:
      return {status, "timeout", "timeout", 0};
    case 413:
      return {status, "invalid_request_error", "body_too_large", 0};
    case 415:
      return {status, "invalid_request_error", "unsupported_media_type", 0};
    case 431:
      return {status, "invalid_request_error", "headers_too_large", 0};
    case 501:
      return {status, "not_implemented", "not_implemented", 0};
    case 503:
      return {status, "server_overloaded", "server_overloaded", 0};
    default:
      break;
  }
  return status < 500 ? Row{status, "invalid_request_error", "", 0}
                      : Row{status, "server_error", "server_error", 0};
}

bool is_messages_route(std::string_view route) {
  constexpr std::string_view kMessages = "/v1/messages";
  return route.starts_with(kMessages) && (route.size() == kMessages.size() || route[kMessages.size()] == '/');
}

}  // namespace

HttpError http_error(const Error& error) {
  const Row row = error.code == kStorageFull ? kStorageFullRow : row_of(error.kind);
  return {row.status,
          {error.message, row.type, error.param, error.code.empty() ? std::string(row.code) : error.code},
          row.retry_after_s};
}

net::Headers error_headers(const HttpError& error) {
  net::Headers headers = {{"Content-Type", "application/json"}};
  if (error.retry_after_s > 0) headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  return headers;
}

void respond_error(net::ResponseWriter& response, const Error& error) {
  const HttpError answer = http_error(error);
  response.respond(answer.status, error_headers(answer), openai::error_json(answer.body));
}

std::string transport_error_body(int status, std::string_view message, std::string_view route) {
  const Row row = row_of_transport(status);
  const openai::ErrorBody body{std::string(message), row.type, "", row.code};
  return is_messages_route(route) ? openai::messages_error_json(status, body) : openai::error_json(body);
}

}  // namespace pagoda::http
