#include "api/openai/output/reasoning_splitter.h"

#include <utility>

#include "api/openai/output/text_window.h"

namespace pagoda::openai {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

size_t leading_space(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? text.size() : first;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(const ReasoningSyntax& syntax, bool starts_inside)
    : syntax_(syntax), state_(starts_inside ? State::kReasoning : State::kStart) {}

ReasoningSplitter::Output ReasoningSplitter::push(std::string_view text) {
  Output output;
  text_ += text;
  while (step(&output)) {
  }
  return output;
}

ReasoningSplitter::Output ReasoningSplitter::finish() {
  ended_ = true;
  Output output;
  while (step(&output)) {
  }
  return output;
}

bool ReasoningSplitter::step(Output* output) {
  switch (state_) {
    case State::kStart:
      return step_start(output);
    case State::kReasoning:
      return step_reasoning(output);
    case State::kGap:
      return step_gap();
    case State::kAnswer:
      break;
  }
  return step_answer(output);
}

// The opening tag, behind white space at most.
bool ReasoningSplitter::step_start(Output*) {
  const size_t space = leading_space(text_);
  const std::string_view rest = std::string_view(text_).substr(space);
  const Match match = rest.empty() ? Match::kMore : match_literal(rest, syntax_.begin);
  if (match == Match::kYes) {
    text_.erase(0, space + syntax_.begin.size());
    state_ = State::kReasoning;
    return true;
  }
  if (match == Match::kMore && !ended_) return false;
  state_ = State::kAnswer;
  return true;
}

bool ReasoningSplitter::step_reasoning(Output* output) {
  // A model may repeat the tag that the prompt has opened.
  if (!any_reasoning_) {
    const size_t space = leading_space(text_);
    const std::string_view rest = std::string_view(text_).substr(space);
    const Match again = rest.empty() ? Match::kMore : match_literal(rest, syntax_.begin);
    if (again == Match::kMore && !ended_) return false;
    text_.erase(0, space + (again == Match::kYes ? syntax_.begin.size() : 0));
  }
  const MarkerPlace end = find_marker(text_, std::span(&syntax_.end, 1));
  const bool whole = end.marker != nullptr;
  const size_t certain = ended_ && !whole ? text_.size() : end.at;
  add_reasoning(std::string_view(text_).substr(0, certain), output);
  text_.erase(0, certain + (whole ? syntax_.end.size() : 0));
  if (whole) state_ = State::kGap;
  return whole;
}

bool ReasoningSplitter::step_gap() {
  text_.erase(0, leading_space(text_));
  const Match match = syntax_.answer_begin.empty() ? Match::kNo : match_literal(text_, syntax_.answer_begin);
  if (text_.empty() || (match == Match::kMore && !ended_)) return false;
  if (match == Match::kYes) text_.erase(0, syntax_.answer_begin.size());
  state_ = State::kAnswer;
  return true;
}

bool ReasoningSplitter::step_answer(Output* output) {
  const MarkerPlace end = find_marker(text_, std::span(&syntax_.answer_end, 1));
  const bool whole = end.marker != nullptr;
  const size_t certain = ended_ && !whole ? text_.size() : end.at;
  output->rest.append(text_, 0, certain);
  text_.erase(0, certain + (whole ? syntax_.answer_end.size() : 0));
  return whole;
}

void ReasoningSplitter::add_reasoning(std::string_view text, Output* output) {
  const size_t last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    if (any_reasoning_) space_ += text;
    return;
  }
  any_reasoning_ = true;
  output->reasoning += std::exchange(space_, std::string(text.substr(last + 1)));
  output->reasoning += text.substr(0, last + 1);
}

}  // namespace pagoda::openai
