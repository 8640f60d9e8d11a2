#include "api/openai/output/tool_parser.h"

#include <algorithm>

namespace pagoda::openai {
namespace {

const std::string kPythonTag = "<|python_tag|>";

}  // namespace

ToolParser::ToolParser(const ToolSyntax& syntax, std::vector<ToolSpec> tools)
    : syntax_(syntax), tools_(std::move(tools)), begins_(syntax.begins) {
  if (!syntax.section_begin.empty()) begins_.push_back(syntax.section_begin);
  if (begins_.empty()) begins_.push_back(kPythonTag);
  state_ = syntax.begins.empty() ? State::kStart : State::kText;
}

void ToolParser::push(std::string_view text, PartList* parts) {
  text_ += text;
  while (step(parts)) {
  }
}

void ToolParser::finish(PartList* parts) {
  ended_ = true;
  while (step(parts)) {
  }
  parts->content(text_);
  text_.clear();
}

bool ToolParser::step(PartList* parts) {
  if (state_ == State::kStart) return step_start(parts);
  if (state_ == State::kText) return step_text(parts);
  const Progress progress = step_call(parts);
  if (progress == Progress::kOn) return true;
  if (progress == Progress::kWait && !ended_) return false;
  fall_back(parts);
  return true;
}

// A format without markers: the first character decides.
bool ToolParser::step_start(PartList*) {
  const size_t first = text_.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  const char opening = syntax_.style == CallStyle::kPythonic ? '[' : '{';
  const bool may_be_call = text_[first] == opening || (opening == '{' && text_[first] == '[');
  state_ = may_be_call ? State::kCall : State::kText;
  marker_ = may_be_call ? first + 1 : 0;
  at_ = may_be_call ? first : 0;
  return true;
}

bool ToolParser::step_text(PartList* parts) {
  if (text_.empty()) return false;
  const MarkerPlace place = find_marker(text_, begins_);
  parts->content(std::string_view(text_).substr(0, place.at));
  text_.erase(0, place.at);
  if (place.marker == nullptr) return false;
  marker_ = place.marker->size();
  at_ = marker_;
  state_ = State::kCall;
  reset();
  return true;
}

void ToolParser::fall_back(PartList* parts) {
  parts->content(std::string_view(text_).substr(0, marker_));
  text_.erase(0, marker_);
  at_ = marker_ = 0;
  state_ = State::kText;
  reset();
}

void ToolParser::commit() {
  text_.erase(0, at_);
  at_ = marker_ = 0;
}

void ToolParser::leave() {
  commit();
  state_ = State::kText;
  reset();
}

void ToolParser::skip_space() {
  while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
}

Match ToolParser::skip_literal(std::string_view literal) {
  size_t at = at_;
  while (at < text_.size() && is_json_space(text_[at])) ++at;
  const Match match = match_literal(std::string_view(text_).substr(at), literal);
  if (match == Match::kYes) at_ = at + literal.size();
  if (match == Match::kMore && ended_) return Match::kNo;
  return match;
}

std::optional<std::string> ToolParser::skip_to(std::string_view literal, size_t limit, Progress* why) {
  const std::string_view text = rest();
  const size_t end = text.find(literal);
  if (end == std::string_view::npos || end > limit) {
    const bool too_long = text.size() > limit + literal.size();
    *why = too_long || ended_ ? Progress::kBroken : Progress::kWait;
    return std::nullopt;
  }
  std::string result(text.substr(0, end));
  advance(end + literal.size());
  return result;
}

bool ToolParser::accepts_name(std::string_view name) const {
  constexpr std::string_view kForbidden = " \t\r\n<>{}[]()\"'`,";
  if (name.empty() || name.find_first_of(kForbidden) != std::string_view::npos) return false;
  return !syntax_.begins.empty() || find_tool(name) != nullptr;
}

const ToolSpec* ToolParser::find_tool(std::string_view name) const {
  const auto found =
      std::find_if(tools_.begin(), tools_.end(), [&](const ToolSpec& tool) { return tool.name == name; });
  return found == tools_.end() ? nullptr : &*found;
}

std::unique_ptr<ToolParser> make_tool_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools) {
  switch (syntax.style) {
    case CallStyle::kJson:
    case CallStyle::kNameKeyed:
    case CallStyle::kNamedJson:
      return make_json_parser(syntax, std::move(tools));
    case CallStyle::kXmlParameters:
    case CallStyle::kArgumentKeys:
      return make_tagged_parser(syntax, std::move(tools));
    case CallStyle::kPythonic:
      break;
  }
  return make_pythonic_parser(syntax, std::move(tools));
}

}  // namespace pagoda::openai
