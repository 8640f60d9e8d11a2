// The part of a URL behind the question mark.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::http {

// RFC 3986, section 2.1. What is no valid escape stays as it is.
std::string percent_decoded(std::string_view text);

// "a=1&b=2"; of equal names the first counts.
class Query {
 public:
  explicit Query(std::string_view text);

  std::optional<std::string> text(const std::string& name) const;
  // kInvalidArgument naming the parameter and its limits.
  Result<int64_t> integer(const std::string& name, int64_t min, int64_t max, int64_t fallback) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace pagoda::http
