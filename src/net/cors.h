// Cross-origin resource sharing (WHATWG Fetch, "CORS protocol"): which web pages may read the answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http_types.h"

namespace pagoda::net {

class CorsPolicy {
 public:
  // Comma-separated origins ("https://a.example"), "*" for all, empty for none.
  explicit CorsPolicy(std::string_view allowed_origins);

  bool enabled() const { return any_ || !origins_.empty(); }
  // Fields for every answer to a request with this Origin; empty where it is absent or not allowed.
  Headers answer_fields(std::string_view origin) const;
  // Further fields for the answer to a preflight from an allowed origin. `methods` is the value of Allow;
  // `requested_headers` is the client's Access-Control-Request-Headers.
  Headers preflight_fields(const std::string& methods, std::string_view requested_headers) const;

 private:
  bool any_ = false;
  std::vector<std::string> origins_;
};

}  // namespace pagoda::net
