// Splits reasoning from what comes behind it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/openai/output/output_format.h"

namespace pagoda::openai {

// Reasoning stands at the start of an output; the same tags further behind are content. White space inside
// the tags at both ends and between reasoning and answer is dropped.
class ReasoningSplitter {
 public:
  ReasoningSplitter(const ReasoningSyntax& syntax, bool starts_inside);

  struct Output {
    std::string reasoning, rest;
  };
  Output push(std::string_view text);
  // The end of the output: what was held back.
  Output finish();

 private:
  enum class State : uint8_t { kStart, kReasoning, kGap, kAnswer };
  bool step(Output* output);
  bool step_start(Output* output);
  bool step_reasoning(Output* output);
  bool step_gap();
  bool step_answer(Output* output);
  void add_reasoning(std::string_view text, Output* output);

  const ReasoningSyntax syntax_;
  State state_;
  std::string text_;
  std::string space_;  // inside reasoning, held back
  bool any_reasoning_ = false;
  bool ended_ = false;
};

}  // namespace pagoda::openai
