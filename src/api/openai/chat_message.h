// The message of a chat answer, whole or as deltas.
#pragma once

#include <string>

#include "api/openai/json_text.h"
#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

// Content is null where a message has reasoning or calls alone. Reasoning has two names: reasoning_content,
// which most clients know, and reasoning, vLLM's newer one.
class ChatMessage {
 public:
  explicit ChatMessage(const OutputParsing& parsing)
      : has_reasoning_(parsing.reasoning), legacy_call_(parsing.legacy_call) {}

  void add(const OutputPart& part);
  Json take();

  Json delta(const OutputPart& part) const;

 private:
  bool has_reasoning_, legacy_call_;
  std::string content_, reasoning_;
  Json calls_ = Json::array();
};

}  // namespace pagoda::openai
