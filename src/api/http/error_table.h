// The one place where kinds of errors become HTTP statuses, error types and codes (API.md, "Errors").
#pragma once

#include <string>

#include "api/openai/response.h"
#include "base/result.h"
#include "net/http_types.h"

namespace pagoda::http {

struct HttpError {
  int status = 500;
  openai::ErrorBody body;
  int retry_after_s = 0;  // 0: no Retry-After header
};

HttpError http_error(const Error& error);

// Answers with the error as JSON.
void respond_error(net::ResponseWriter& response, const Error& error);

}  // namespace pagoda::http
