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

// Content-Type, and Retry-After where it helps.
net::Headers error_headers(const HttpError& error);

// Answers with an error in the shape of an API. Routes of other shapes have an own one.
using ErrorResponder = void (*)(net::ResponseWriter& response, const Error& error);

// The shape of OpenAI's API.
void respond_error(net::ResponseWriter& response, const Error& error);

}  // namespace pagoda::http
