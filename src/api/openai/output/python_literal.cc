#include "api/openai/output/python_literal.h"

#include <cctype>

namespace pagoda::openai {
namespace {

using namespace std::string_view_literals;

constexpr int kMaxDepth = 64;

// How reading stops early; caught in read_python_call().
struct Stop {
  PythonResult why;
};

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

void append_utf8(uint32_t code, std::string* text) {
  const auto byte = [&](uint32_t value) { text->push_back(static_cast<char>(value)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      byte(0xE0 | code >> 12);
    } else {
      byte(0xF0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3F));
    }
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void call(PythonCall* call) {
    call->name = word();
    if (call->name.empty()) throw Stop{PythonResult::kNoCall};
    expect('(');
    if (!accept(')')) {
      do {
        if (accept(')')) break;  // behind a last comma
        std::string key = word();
        if (key.empty() || call->arguments.contains(key)) throw Stop{PythonResult::kNoCall};
        expect('=');
        call->arguments[std::move(key)] = value(0);
      } while (more(')'));
    }
    call->size = at_;
  }

 private:
  char peek() {
    skip_space();
    if (at_ == text_.size()) throw Stop{PythonResult::kIncomplete};
    return text_[at_];
  }
  char next() {
    if (at_ == text_.size()) throw Stop{PythonResult::kIncomplete};
    return text_[at_++];
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) throw Stop{PythonResult::kNoCall};
  }
  // A comma, or the end of a list.
  bool more(char close) {
    if (accept(close)) return false;
    expect(',');
    return true;
  }

  std::string word() {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (at_ == text_.size()) throw Stop{PythonResult::kIncomplete};
    return std::string(text_.substr(start, at_ - start));
  }

  Json value(int depth) {
    if (depth > kMaxDepth) throw Stop{PythonResult::kNoCall};
    const char c = peek();
    if (c == '"' || c == '\'') return string();
    if (c == '[') return list('[', ']', depth);
    if (c == '(') return list('(', ')', depth);
    if (c == '{') return dict(depth);
    if (c == '+') ++at_;
    const std::string text = word_with_sign();
    if (text == "True" || text == "true") return true;
    if (text == "False" || text == "false") return false;
    if (text == "None" || text == "null") return nullptr;
    auto number = parse_json(text);
    if (!number || !number->is_number()) throw Stop{PythonResult::kNoCall};
    return std::move(*number);
  }

  // Numbers and the names of constants.
  std::string word_with_sign() {
    const size_t start = at_;
    while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '+')) ++at_;
    if (at_ == text_.size()) throw Stop{PythonResult::kIncomplete};
    return std::string(text_.substr(start, at_ - start));
  }

  Json list(char open, char close, int depth) {
    expect(open);
    Json result = Json::array();
    if (accept(close)) return result;
    do {
      if (accept(close)) break;
      result.push_back(value(depth + 1));
    } while (more(close));
    return result;
  }

  Json dict(int depth) {
    expect('{');
    Json result = Json::object();
    if (accept('}')) return result;
    do {
      if (accept('}')) break;
      const char quote = peek();
      if (quote != '"' && quote != '\'') throw Stop{PythonResult::kNoCall};
      std::string key = string();
      expect(':');
      result[std::move(key)] = value(depth + 1);
    } while (more('}'));
    return result;
  }

  std::string string() {
    const char quote = next();
    std::string result;
    for (char c = next(); c != quote; c = next()) {
      if (c == '\\') {
        escape(&result);
      } else {
        result += c;
      }
    }
    return result;
  }

  void escape(std::string* result) {
    const char c = next();
    constexpr std::string_view kFrom = "nrtbfav0\\\"'";
    constexpr std::string_view kTo = "\n\r\t\b\f\a\v\0\\\"'"sv;
    const size_t simple = kFrom.find(c);
    if (c == 'u' || c == 'x' || c == 'U') {
      append_utf8(code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8), result);
    } else if (simple != std::string_view::npos && simple < kTo.size()) {
      *result += kTo[simple];
    } else if (c != '\n') {
      *result += '\\';
      *result += c;
    }
  }

  uint32_t hex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = next();
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) throw Stop{PythonResult::kNoCall};
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return code;
  }

  uint32_t code_point(int digits) {
    const uint32_t code = hex(digits);
    const bool is_high = code >= 0xD800 && code < 0xDC00;
    if (digits == 4 && is_high && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      return 0x10000 + ((code - 0xD800) << 10) + (hex(4) & 0x3FF);
    }
    const bool is_surrogate = code >= 0xD800 && code < 0xE000;
    return is_surrogate || code > 0x10FFFF ? 0xFFFD : code;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

PythonResult read_python_call(std::string_view text, PythonCall* call) {
  *call = PythonCall{};
  try {
    Reader(text).call(call);
  } catch (const Stop& stop) {
    return stop.why;
  }
  return PythonResult::kCall;
}

}  // namespace pagoda::openai
