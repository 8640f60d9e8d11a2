// An output parser for tests of builders: each piece of text says what it is.
#pragma once

#include <memory>
#include <string>

#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

// "c:text" is content, "r:text" reasoning, "t:name" begins a call, "a:text" are its arguments; text without
// such a beginning is held back and comes as content at the end.
class ScriptedParser final : public OutputParser {
 public:
  std::vector<OutputPart> push(std::string_view text) override {
    const std::string rest(text.size() > 2 ? text.substr(2) : std::string_view());
    if (text.starts_with("c:")) return {ContentText{rest}};
    if (text.starts_with("r:")) return {ReasoningText{rest}};
    if (text.starts_with("a:")) return {ToolArguments{calls_ - 1, rest}};
    if (text.starts_with("t:")) {
      const int index = calls_++;
      return {ToolCallBegin{index, "call_" + std::to_string(index), rest}};
    }
    held_ += text;
    return {};
  }
  std::vector<OutputPart> finish() override {
    if (held_.empty()) return {};
    return {ContentText{held_}};
  }
  bool made_tool_calls() const override { return calls_ > 0; }

 private:
  int calls_ = 0;
  std::string held_;
};

}  // namespace pagoda::openai
