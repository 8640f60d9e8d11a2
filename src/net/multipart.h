// Bodies of the type multipart/form-data.
// Source: RFC 7578; its grammar is that of RFC 2046, section 5.1.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pagoda::net {

// A form has a file and a few short fields; a part's headers say its name and type.
inline constexpr size_t kMaxFormParts = 32;
inline constexpr size_t kMaxPartHeaderBytes = 8192;

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // as the client wrote it: never a path to use
  std::string content_type;             // empty: none was given
  std::string_view content;             // in the body
};

// From the Content-Type of the request. kInvalidArgument when it is another type or names no valid boundary.
Result<std::string> multipart_boundary(std::string_view content_type);

// Strict: nothing in front of the first boundary or behind the last one, every part with a form-data
// disposition and a name, no transfer encodings. kInvalidArgument with the byte offset. `filename*` is
// ignored, as forms must not use it.
Result<std::vector<FormPart>> parse_multipart(std::string_view body, std::string_view boundary);

}  // namespace pagoda::net
