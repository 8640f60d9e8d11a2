#include "net/http_types.h"

#include "net/ascii.h"

namespace pagoda::net {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (iequals(field, name)) return value;
  }
  return {};
}

}  // namespace pagoda::net
