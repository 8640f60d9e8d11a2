#include "text/gbnf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace pagoda::text::internal {
namespace {

using Kind = GbnfNode::Kind;

constexpr int kMaxNesting = 100;
constexpr size_t kMaxRules = 2000;
constexpr int kMaxRepeats = 100000;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<GbnfGrammar> parse() {
    skip_space(/*newlines=*/true);
    while (!at_end()) PAGODA_TRY(parse_rule());
    for (const GbnfRule& rule : grammar_.rules) {
      if (!rule.defined)
        return error_at(rule.first_line, fmt::format("the rule {} is not defined", rule.name));
    }
    const auto root = rule_of_name_.find("root");
    if (root == rule_of_name_.end()) return wrong("there is no rule named root");
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  bool take(std::string_view wanted) {
    if (!text_.substr(position_).starts_with(wanted)) return false;
    position_ += wanted.size();
    return true;
  }

  static Error error_at(int line, std::string message) {
    return make_error(ErrorKind::kInvalidArgument, fmt::format("line {}: {}", line, message));
  }
  Error wrong(std::string message) const { return error_at(line_, std::move(message)); }
  Error expected(std::string_view what) const {
    if (at_end()) return wrong(fmt::format("expected {}, but the text ends", what));
    return wrong(fmt::format("expected {} at \"{}\"", what, excerpt()));
  }
  // Whole characters only.
  std::string_view excerpt() const {
    size_t end = std::min(position_ + 20, text_.size());
    end = std::min(end, text_.find('\n', position_));
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) ++end;
    return text_.substr(position_, end - position_);
  }

  void skip_space(bool newlines) {
    for (; !at_end(); ++position_) {
      const char c = peek();
      if (c == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
        if (at_end()) return;
      }
      if (peek() == '\n' || peek() == '\r') {
        if (!newlines) return;
        line_ += peek() == '\n';
      } else if (peek() != ' ' && peek() != '\t') {
        return;
      }
    }
  }

  Result<size_t> parse_name() {
    const size_t begin = position_;
    while (!at_end() && is_name_char(peek())) ++position_;
    if (position_ == begin) return expected("a rule's name");
    const std::string name(text_.substr(begin, position_ - begin));
    const auto [place, is_new] = rule_of_name_.try_emplace(name, grammar_.rules.size());
    if (is_new) {
      if (grammar_.rules.size() == kMaxRules)
        return wrong(fmt::format("there are more than {} rules", kMaxRules));
      grammar_.rules.push_back({.name = name, .body = {}, .first_line = line_});
    }
    return place->second;
  }

  Result<void> parse_rule() {
    const size_t rule = PAGODA_TRY(parse_name());
    skip_space(false);
    if (!take("::=")) return expected("::=");
    skip_space(true);
    GbnfNode body = PAGODA_TRY(parse_choice(0));
    if (!at_end() && peek() != '\n' && peek() != '\r') return expected("the end of the rule");
    if (grammar_.rules[rule].defined) {
      return wrong(fmt::format("the rule {} is defined twice", grammar_.rules[rule].name));
    }
    grammar_.rules[rule].body = std::move(body);
    grammar_.rules[rule].defined = true;
    skip_space(true);
    return {};
  }

  Result<GbnfNode> parse_choice(int depth) {
    if (depth > kMaxNesting) return wrong(fmt::format("it is nested deeper than {} levels", kMaxNesting));
    GbnfNode choice{.kind = Kind::kChoice, .text = {}, .items = {}};
    choice.items.push_back(PAGODA_TRY(parse_sequence(depth)));
    while (take("|")) {
      skip_space(true);
      choice.items.push_back(PAGODA_TRY(parse_sequence(depth)));
    }
    if (choice.items.size() == 1) return std::move(choice.items.front());
    return choice;
  }

  Result<GbnfNode> parse_sequence(int depth) {
    GbnfNode sequence{.kind = Kind::kSequence, .text = {}, .items = {}};
    while (!at_end() && peek() != '|' && peek() != ')' && peek() != '\n' && peek() != '\r') {
      GbnfNode item = PAGODA_TRY(parse_item(depth));
      skip_space(depth > 0);
      while (auto repeat = PAGODA_TRY(parse_repeat())) {
        repeat->items.push_back(std::move(item));
        item = std::move(*repeat);
        skip_space(depth > 0);
      }
      sequence.items.push_back(std::move(item));
    }
    return sequence;
  }

  Result<GbnfNode> parse_item(int depth) {
    GbnfNode node{.text = {}, .items = {}};
    if (take("(")) {
      skip_space(true);
      node = PAGODA_TRY(parse_choice(depth + 1));
      if (!take(")")) return expected(")");
    } else if (take("\"")) {
      node.kind = Kind::kLiteral;
      while (!take("\"")) append_utf8(node.text, PAGODA_TRY(parse_char("\"")));
    } else if (take("[")) {
      node.kind = Kind::kClass;
      node.text = PAGODA_TRY(parse_class());
    } else if (take(".")) {
      node.kind = Kind::kClass;
      node.text = R"([\x{0}-\x{10FFFF}])";
    } else if (peek() == '<') {
      node.kind = Kind::kToken;
      node.text = PAGODA_TRY(parse_token());
    } else {
      if (!is_name_char(peek())) return expected("a literal, a class, a group or a rule");
      node.kind = Kind::kRule;
      node.rule = PAGODA_TRY(parse_name());
    }
    return node;
  }

  Result<std::string> parse_token() {
    const size_t end = text_.find('>', position_);
    const std::string_view token =
        end == std::string_view::npos ? "" : text_.substr(position_, end + 1 - position_);
    if (token.size() < 3 || token.find_first_of(" \t\r\n", 0) != std::string_view::npos) {
      return expected("a control token like <name>");
    }
    position_ = end + 1;
    return std::string(token);
  }

  // As a regular expression that names every character by its number.
  Result<std::string> parse_class() {
    const bool is_negated = take("^");
    std::string regex = is_negated ? "[^" : "[";
    const size_t empty = regex.size();
    while (!take("]")) {
      const uint32_t first = PAGODA_TRY(parse_char("]"));
      uint32_t last = first;
      if (peek() == '-' && position_ + 1 < text_.size() && text_[position_ + 1] != ']') {
        ++position_;
        last = PAGODA_TRY(parse_char("]"));
      }
      if (last < first) return wrong("a range of a character class ends before it begins");
      regex += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", first, last);
    }
    if (regex.size() > empty) return regex + "]";
    if (is_negated) return std::string(R"([\x{0}-\x{10FFFF}])");
    return wrong("a character class is empty");
  }

  // One character of a literal or a class, which `closing` ends.
  Result<uint32_t> parse_char(std::string_view closing) {
    if (at_end() || peek() == '\n') return expected(closing);
    if (take("\\")) return parse_escape();
    const auto lead = static_cast<unsigned char>(text_[position_++]);
    if (lead < 0x80) return uint32_t{lead};
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t code = lead & (0x3Fu >> more);
    for (int i = 0; i < more; ++i) {
      const auto byte = at_end() ? '\0' : text_[position_++];
      if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) return wrong("the text is not valid UTF-8");
      code = code << 6 | (static_cast<unsigned char>(byte) & 0x3Fu);
    }
    return code;
  }

  Result<uint32_t> parse_escape() {
    const char c = peek();
    ++position_;
    switch (c) {
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      case 't':
        return uint32_t{'\t'};
      case 'r':
        return uint32_t{'\r'};
      case 'n':
        return uint32_t{'\n'};
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(c);
      default:
        --position_;
        return expected("an escape that is known");
    }
  }

  Result<uint32_t> parse_hex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) return expected(fmt::format("{} hexadecimal digits", digits));
      ++position_;
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return wrong("an escape is no character");
    return code;
  }

  Result<std::optional<GbnfNode>> parse_repeat() {
    GbnfNode repeat{.kind = Kind::kRepeat, .text = {}, .items = {}};
    repeat.max = -1;
    if (take("*")) return std::optional(std::move(repeat));
    repeat.min = 1;
    if (take("+")) return std::optional(std::move(repeat));
    repeat.min = 0;
    repeat.max = 1;
    if (take("?")) return std::optional(std::move(repeat));
    if (!take("{")) return std::optional<GbnfNode>();
    skip_space(false);
    repeat.min = peek() == ',' ? 0 : PAGODA_TRY(parse_count());
    repeat.max = repeat.min;
    skip_space(false);
    if (take(",")) {
      skip_space(false);
      repeat.max = peek() == '}' ? -1 : PAGODA_TRY(parse_count());
      skip_space(false);
    }
    if (!take("}")) return expected("}");
    if (repeat.max >= 0 && repeat.max < repeat.min) return wrong("a repetition ends before it begins");
    return std::optional(std::move(repeat));
  }

  Result<int> parse_count() {
    int count = 0;
    const size_t begin = position_;
    for (; peek() >= '0' && peek() <= '9'; ++position_) {
      count = count * 10 + (peek() - '0');
      if (count > kMaxRepeats) return wrong(fmt::format("a repetition is above {}", kMaxRepeats));
    }
    if (position_ == begin) return expected("a number");
    return count;
  }

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
  GbnfGrammar grammar_;
  std::unordered_map<std::string, size_t> rule_of_name_;
};

}  // namespace

Result<GbnfGrammar> parse_gbnf(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace pagoda::text::internal
