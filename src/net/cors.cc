#include "net/cors.h"

#include <algorithm>

#include "net/ascii.h"

namespace pagoda::net {

CorsPolicy::CorsPolicy(std::string_view allowed_origins) {
  while (!allowed_origins.empty()) {
    const size_t comma = allowed_origins.find(',');
    const std::string_view origin = trim(allowed_origins.substr(0, comma));
    if (origin == "*") any_ = true;
    if (!origin.empty()) origins_.emplace_back(origin);
    allowed_origins.remove_prefix(comma == std::string_view::npos ? allowed_origins.size() : comma + 1);
  }
}

Headers CorsPolicy::answer_fields(std::string_view origin) const {
  if (origin.empty()) return {};
  const bool listed = std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
  if (!any_ && !listed) return {};
  Headers fields{{"Access-Control-Allow-Origin", any_ ? "*" : std::string(origin)},
                 {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
  // The answer differs per origin, which shared caches must know.
  if (!any_) fields.emplace_back("Vary", "Origin");
  return fields;
}

Headers CorsPolicy::preflight_fields(const std::string& methods, std::string_view requested_headers) const {
  Headers fields{{"Access-Control-Allow-Methods", methods}, {"Access-Control-Max-Age", "600"}};
  if (!requested_headers.empty()) {
    fields.emplace_back("Access-Control-Allow-Headers", std::string(requested_headers));
  }
  return fields;
}

}  // namespace pagoda::net
