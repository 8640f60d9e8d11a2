#include "service/fim_suffix_guard.h"

#include <algorithm>

namespace pagoda::service {
namespace {

// Longer lines and longer blank texts are not looked for: every byte of them is compared with every token.
constexpr size_t kMaxLineBytes = 1024, kMaxBlankBytes = 256;
constexpr std::string_view kBlanks = " \t\r\n";

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::string_view trim_end(std::string_view text) {
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

int64_t bracket_depth(std::string_view text) {
  int64_t depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
  return depth;
}

}  // namespace

FimSuffixGuard::FimSuffixGuard(std::string_view suffix, bool at_line_start) : sent_line_feed_(at_line_start) {
  const size_t first = suffix.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return;
  const size_t feed = suffix.substr(0, first).rfind('\n');
  own_line_ = feed != std::string_view::npos;
  const size_t start = own_line_ ? feed + 1 : 0;
  const std::string_view line = trim_end(suffix.substr(start, suffix.find('\n', first) - start));
  if (line.size() > kMaxLineBytes) return;
  line_ = line;
  line_closes_ = bracket_depth(line_) < 0;
  if (!own_line_) return;
  std::string_view blank = suffix.substr(0, start);
  blank.remove_prefix(blank.size() - std::min(blank.size(), kMaxBlankBytes));
  blank_ = blank.substr(std::min(blank.find_first_of("\r\n"), blank.size()));
}

std::string FimSuffixGuard::push(std::string_view piece) {
  if (stopped_) return {};
  if (line_.empty()) return std::string(piece);
  for (const char c : piece) {
    if (c == '\n') {
      if (const auto start = repetition()) {
        stopped_ = true;
        return release(*start);
      }
    }
    held_ += c;
  }
  return release(held_.size() - undecided());
}

std::string FimSuffixGuard::finish() {
  if (stopped_) return {};
  const auto start = repetition();
  stopped_ = start.has_value();
  return release(start.value_or(held_.size()));
}

std::string FimSuffixGuard::pass(std::string_view piece) {
  held_ += piece;
  return release(held_.size());
}

std::optional<size_t> FimSuffixGuard::repetition() const {
  if (line_.empty()) return std::nullopt;
  const std::string_view text = trim_end(held_);
  if (!text.ends_with(line_) || held_.size() - text.size() > kMaxBlankBytes) return std::nullopt;
  size_t start = text.size() - line_.size();
  if (!own_line_) return closes_own_brackets(start) ? std::nullopt : std::optional(start);
  if (!may_start_line(start)) return std::nullopt;
  for (size_t i = blank_.size(); i > 0 && start > 0 && text[start - 1] == blank_[i - 1]; --i) --start;
  return start;
}

size_t FimSuffixGuard::undecided() const {
  const std::string pattern = blank_ + line_;
  const std::string_view text = held_;
  // The longest tail that is the beginning of the pattern, or of the pattern less a part of its blank text,
  // and is whole but for blanks at most.
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view tail = text.substr(at);
    for (size_t i = 0; i <= blank_.size(); ++i) {
      if (own_line_ && i == blank_.size() && !may_start_line(at)) continue;
      const std::string_view wanted = std::string_view(pattern).substr(i);
      if (wanted.starts_with(tail)) return tail.size();
      if (tail.size() > wanted.size() + kMaxBlankBytes || !tail.starts_with(wanted)) continue;
      if (trim_end(tail).size() <= wanted.size()) return tail.size();
    }
  }
  return 0;
}

bool FimSuffixGuard::may_start_line(size_t at) const {
  return at == 0 ? sent_line_feed_ : held_[at - 1] == '\n';
}

bool FimSuffixGuard::closes_own_brackets(size_t at) const {
  return line_closes_ && sent_depth_ + bracket_depth(std::string_view(held_).substr(0, at)) > 0;
}

std::string FimSuffixGuard::release(size_t bytes) {
  std::string text = held_.substr(0, bytes);
  held_.erase(0, bytes);
  if (!text.empty()) sent_line_feed_ = text.back() == '\n';
  sent_depth_ += bracket_depth(text);
  return text;
}

}  // namespace pagoda::service
