#include "api/openai/output/json_scanner.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// -?(0|[1-9]digits)(.digits)?([eE][+-]?digits)?
bool is_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > start;
  };
  if (at < text.size() && text[at] == '-') ++at;
  if (at < text.size() && text[at] == '0') {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

}  // namespace

JsonScanner::Step JsonScanner::feed(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return in_string(c);
    case State::kNumber:
      return in_number(c);
    case State::kWord:
      if (c != word_.back()) return broken();
      word_.pop_back();
      return word_.empty() ? end_value() : Step::kMore;
    case State::kValue:
    case State::kFirstElement:
      return start_value(c);
    case State::kBroken:
      return Step::kBroken;
    default:
      return separator(c);
  }
}

JsonScanner::Step JsonScanner::start_value(char c) {
  if (is_space(c) && !closers_.empty()) return Step::kMore;
  const auto word = [&](std::string_view rest) {
    word_.assign(rest.rbegin(), rest.rend());
    state_ = State::kWord;
    return Step::kMore;
  };
  if (c == ']' && state_ == State::kFirstElement) {
    closers_.pop_back();
    return end_value();
  }
  if (c == '{') return open('}', State::kFirstKey);
  if (c == '[') return open(']', State::kFirstElement);
  if (c == 't') return word("rue");
  if (c == 'f') return word("alse");
  if (c == 'n') return word("ull");
  if (c == '"') {
    state_ = State::kString;
    is_key_ = false;
    return Step::kMore;
  }
  if (c != '-' && !is_digit(c)) return broken();
  word_ = c;
  state_ = State::kNumber;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::open(char close, State next) {
  if (std::cmp_greater_equal(closers_.size(), kMaxJsonDepth)) return broken();
  closers_.push_back(close);
  state_ = next;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::in_string(char c) {
  if (state_ == State::kHex) {
    if (!std::isxdigit(static_cast<unsigned char>(c))) return broken();
    if (--hex_left_ == 0) state_ = State::kString;
    return Step::kMore;
  }
  if (state_ == State::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return broken();
    state_ = c == 'u' ? State::kHex : State::kString;
    hex_left_ = 4;
    return Step::kMore;
  }
  if (static_cast<unsigned char>(c) < 0x20) return broken();
  if (c == '\\') state_ = State::kEscape;
  if (c != '"') return Step::kMore;
  if (!is_key_) return end_value();
  state_ = State::kColon;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::in_number(char c) {
  if (is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-') {
    word_ += c;
    return Step::kMore;
  }
  if (!is_number(word_)) return broken();
  if (closers_.empty()) return Step::kDoneBefore;
  state_ = State::kCommaOrEnd;
  return separator(c);
}

JsonScanner::Step JsonScanner::separator(char c) {
  if (is_space(c)) return Step::kMore;
  const bool may_end = state_ == State::kCommaOrEnd || state_ == State::kFirstKey;
  if (may_end && c == closers_.back()) {
    closers_.pop_back();
    return end_value();
  }
  if (state_ == State::kCommaOrEnd && c == ',') {
    state_ = closers_.back() == '}' ? State::kKey : State::kValue;
    return Step::kMore;
  }
  if (state_ == State::kColon && c == ':') {
    state_ = State::kValue;
    return Step::kMore;
  }
  if ((state_ == State::kFirstKey || state_ == State::kKey) && c == '"') {
    state_ = State::kString;
    is_key_ = true;
    return Step::kMore;
  }
  return broken();
}

JsonScanner::Step JsonScanner::end_value() {
  if (closers_.empty()) return Step::kDone;
  state_ = State::kCommaOrEnd;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::broken() {
  state_ = State::kBroken;
  return Step::kBroken;
}

}  // namespace pagoda::openai
