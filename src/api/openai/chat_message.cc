#include "api/openai/chat_message.h"

#include <utility>

namespace pagoda::openai {
namespace {

Json text_or_null(std::string text) {
  return text.empty() ? Json(nullptr) : Json(std::move(text));
}

}  // namespace

void ChatMessage::add(const OutputPart& part) {
  if (const auto* content = std::get_if<ContentText>(&part)) {
    content_ += content->text;
  } else if (const auto* reasoning = std::get_if<ReasoningText>(&part)) {
    reasoning_ += reasoning->text;
  } else if (const auto* begin = std::get_if<ToolCallBegin>(&part)) {
    calls_.push_back(
        {{"id", begin->id}, {"type", "function"}, {"function", {{"name", begin->name}, {"arguments", ""}}}});
  } else {
    const auto& arguments = std::get<ToolArguments>(part);
    calls_[static_cast<size_t>(arguments.index)]["function"]["arguments"].get_ref<std::string&>() +=
        arguments.text;
  }
}

Json ChatMessage::take() {
  const bool is_alone = content_.empty() && (!calls_.empty() || !reasoning_.empty());
  Json message = {{"role", "assistant"},
                  {"content", is_alone ? Json(nullptr) : Json(std::move(content_))},
                  {"refusal", nullptr}};
  if (has_reasoning_) {
    message["reasoning_content"] = text_or_null(reasoning_);
    message["reasoning"] = text_or_null(std::move(reasoning_));
  }
  if (calls_.empty()) return message;
  if (legacy_call_) {
    message["function_call"] = std::move(calls_[0]["function"]);
  } else {
    message["tool_calls"] = std::move(calls_);
  }
  return message;
}

Json ChatMessage::delta(const OutputPart& part) const {
  if (const auto* content = std::get_if<ContentText>(&part)) return {{"content", content->text}};
  if (const auto* reasoning = std::get_if<ReasoningText>(&part)) {
    return {{"reasoning_content", reasoning->text}, {"reasoning", reasoning->text}};
  }
  if (const auto* begin = std::get_if<ToolCallBegin>(&part)) {
    Json function = {{"name", begin->name}, {"arguments", ""}};
    if (legacy_call_) return {{"function_call", std::move(function)}};
    Json call = {
        {"index", begin->index}, {"id", begin->id}, {"type", "function"}, {"function", std::move(function)}};
    return {{"tool_calls", Json::array({std::move(call)})}};
  }
  const auto& arguments = std::get<ToolArguments>(part);
  Json function = {{"arguments", arguments.text}};
  if (legacy_call_) return {{"function_call", std::move(function)}};
  Json call = {{"index", arguments.index}, {"function", std::move(function)}};
  return {{"tool_calls", Json::array({std::move(call)})}};
}

}  // namespace pagoda::openai
