#include "net/multipart.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "net/ascii.h"

namespace pagoda::net {
namespace {

constexpr size_t kMaxBoundaryBytes = 70;  // RFC 2046

Error invalid(std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message));
}

Error invalid_at(size_t offset, std::string_view what) {
  return invalid(fmt::format("The form is not valid multipart/form-data: {} at byte {}.", what, offset));
}

bool is_boundary_char(char c) {
  return is_digit(c) || is_alpha(c) || std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
}

// "value; name=token; name="quoted"".
struct Parameterized {
  std::string_view value;
  std::vector<std::pair<std::string_view, std::string>> parameters;

  const std::string* find(std::string_view name) const {
    for (const auto& [key, text] : parameters) {
      if (iequals(key, name)) return &text;
    }
    return nullptr;
  }
};

// The quoted string at the start of `rest`, which is shortened by it. Browsers escape a quote as %22, others
// with a backslash; a backslash before anything else is a backslash, as old browsers send paths with them.
std::optional<std::string> take_quoted(std::string_view& rest) {
  std::string text;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return text;
    }
    const bool escapes =
        rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\');
    text.push_back(rest[escapes ? ++i : i]);
  }
  return std::nullopt;
}

std::optional<std::string> take_token(std::string_view& rest) {
  const auto end = std::ranges::find_if_not(rest, is_token_char);
  const auto length = static_cast<size_t>(end - rest.begin());
  if (length == 0) return std::nullopt;
  std::string text(rest.substr(0, length));
  rest.remove_prefix(length);
  return text;
}

std::optional<Parameterized> parse_parameterized(std::string_view field) {
  Parameterized result;
  const size_t end = std::min(field.find(';'), field.size());
  result.value = trim(field.substr(0, end));
  std::string_view rest = field.substr(end);
  while (!(rest = trim(rest)).empty()) {
    if (rest.front() != ';') return std::nullopt;
    rest = trim(rest.substr(1));
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    const std::string_view name = rest.substr(0, equals);
    if (!std::ranges::all_of(name, is_token_char) || result.find(name) != nullptr) return std::nullopt;
    rest.remove_prefix(equals + 1);
    auto value = rest.starts_with('"') ? take_quoted(rest) : take_token(rest);
    if (!value) return std::nullopt;
    result.parameters.emplace_back(name, std::move(*value));
  }
  return result;
}

bool has_control_chars(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

class FormParser {
 public:
  FormParser(std::string_view body, std::string_view boundary)
      : body_(body), delimiter_(fmt::format("\r\n--{}", boundary)) {}

  Result<std::vector<FormPart>> parse() {
    std::vector<FormPart> parts;
    if (!body_.starts_with(std::string_view(delimiter_).substr(2))) {
      return invalid_at(0, "it does not begin with the boundary");
    }
    position_ = delimiter_.size() - 2;
    while (!PAGODA_TRY(at_end())) {
      if (parts.size() == kMaxFormParts) {
        return invalid(fmt::format("The form has more than {} parts.", kMaxFormParts));
      }
      parts.push_back(PAGODA_TRY(parse_part()));
    }
    return parts;
  }

 private:
  std::string_view rest() const { return body_.substr(position_); }

  // Behind a boundary: true behind the last one, else steps over the end of its line.
  Result<bool> at_end() {
    if (rest().starts_with("--")) {
      const std::string_view epilogue = rest().substr(2);
      if (epilogue.find_first_not_of("\r\n \t") == std::string_view::npos) return true;
      return invalid_at(position_ + 2, "something follows the last boundary");
    }
    const size_t end = rest().find_first_not_of(" \t");
    if (end == std::string_view::npos || !rest().substr(end).starts_with("\r\n")) {
      return invalid_at(position_, "a boundary is followed by neither a part nor the end");
    }
    position_ += end + 2;
    return false;
  }

  Result<FormPart> parse_part() {
    FormPart part;
    const size_t start = position_;
    bool has_disposition = false;
    while (!rest().starts_with("\r\n")) {
      const size_t end = rest().substr(0, kMaxPartHeaderBytes).find("\r\n");
      if (end == std::string_view::npos || position_ + end - start > kMaxPartHeaderBytes) {
        return invalid_at(
            start, fmt::format("the headers of a part do not end within {} bytes", kMaxPartHeaderBytes));
      }
      const std::string_view line = rest().substr(0, end);
      PAGODA_TRY(read_header(line, part, has_disposition));
      position_ += end + 2;
    }
    if (!has_disposition) return invalid_at(start, "a part has no Content-Disposition");
    position_ += 2;
    // The line break in front of a boundary belongs to it; without content it is the one behind the headers.
    const size_t from =
        rest().starts_with(std::string_view(delimiter_).substr(2)) ? position_ - 2 : position_;
    const size_t end = body_.find(delimiter_, from);
    if (end == std::string_view::npos) return invalid_at(body_.size(), "the last boundary is missing");
    part.content = end < position_ ? std::string_view() : body_.substr(position_, end - position_);
    position_ = end + delimiter_.size();
    return part;
  }

  Result<void> read_header(std::string_view line, FormPart& part, bool& has_disposition) const {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0 ||
        !std::ranges::all_of(line.substr(0, colon), is_token_char)) {
      return invalid_at(position_, "a part has a header without a name");
    }
    const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
    if (has_control_chars(value)) return invalid_at(position_, "a header has control characters");
    if (iequals(name, "content-type")) part.content_type = value;
    if (iequals(name, "content-transfer-encoding") && !iequals(value, "binary") && !iequals(value, "8bit") &&
        !iequals(value, "7bit")) {
      return invalid_at(position_, "a part has a transfer encoding");
    }
    if (!iequals(name, "content-disposition")) return {};
    const auto disposition = parse_parameterized(value);
    if (has_disposition || !disposition || !iequals(disposition->value, "form-data") ||
        disposition->find("name") == nullptr) {
      return invalid_at(position_, "a Content-Disposition is not one of a form");
    }
    has_disposition = true;
    part.name = *disposition->find("name");
    if (const std::string* filename = disposition->find("filename")) part.filename = *filename;
    return {};
  }

  const std::string_view body_;
  const std::string delimiter_;
  size_t position_ = 0;
};

}  // namespace

Result<std::string> multipart_boundary(std::string_view content_type) {
  const auto type = parse_parameterized(content_type);
  if (!type || !iequals(type->value, "multipart/form-data")) {
    return invalid("The Content-Type must be multipart/form-data with a boundary.");
  }
  const std::string* boundary = type->find("boundary");
  if (boundary == nullptr || boundary->empty() || boundary->size() > kMaxBoundaryBytes ||
      !std::ranges::all_of(*boundary, is_boundary_char) || boundary->back() == ' ') {
    return invalid("The Content-Type multipart/form-data names no valid boundary.");
  }
  return *boundary;
}

Result<std::vector<FormPart>> parse_multipart(std::string_view body, std::string_view boundary) {
  return FormParser(body, boundary).parse();
}

}  // namespace pagoda::net
