#include "api/openai/messages_response.h"

#include <utility>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 || status == 501 ? "invalid_request_error" : "api_error";
  }
}

// The statuses of errors that can come in the middle of a stream, by the types of the other APIs.
int status_of(const std::string& type) {
  if (type == "timeout") return 504;
  if (type == "server_overloaded" || type == "shutting_down" || type == "loading") return 503;
  return type == "invalid_request_error" ? 400 : 500;
}

Json error_object(int status, const ErrorBody& error) {
  return {{"type", "error"},
          {"error",
           {{"type", error_type(status)},
            {"message", error.message},
            {"param", error.param.empty() ? Json(nullptr) : Json(error.param)}}}};
}

// A tool gets an object. What is none, as the output was cut inside, is shown as it is under a name that the
// reference uses for this.
Json tool_input(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  auto parsed = parse_json(arguments);
  if (parsed && parsed->is_object()) return std::move(*parsed);
  return {{"INVALID_JSON", arguments}};
}

// Both ways run through the same events; a whole answer keeps none of them.
class MessagesBuilder final : public ResponseBuilder {
 public:
  MessagesBuilder(MessagesOptions options, std::unique_ptr<OutputParser> parser)
      : options_(std::move(options)), parser_(std::move(parser)) {}

  void set_prompt(int, PromptInfo) override {}

  void add(ChoiceDelta delta) override { take(std::move(delta)); }

  std::string body(const UsageCounts& usage) override {
    Json result = message();
    result["content"] = blocks_;
    result.update(stop_json(usage));
    result["usage"] = usage_json(usage);
    return dump_json(result);
  }

  std::vector<StreamEvent> events(ChoiceDelta delta, const UsageCounts& usage) override {
    start_stream(usage);
    take(std::move(delta));
    return std::exchange(events_, {});
  }

  std::vector<StreamEvent> last_events(const UsageCounts& usage) override {
    start_stream(usage);
    send("message_delta", {{"delta", stop_json(usage)}, {"usage", usage_json(usage)}});
    send("message_stop", Json::object());
    return std::exchange(events_, {});
  }

  std::vector<StreamEvent> error_events(const ErrorBody& error) override {
    return {{"error", dump_json(error_object(status_of(error.type), error))}};
  }

 private:
  enum class Open : uint8_t { kNothing, kThinking, kText, kToolUse };

  Json message() const {
    return {{"id", options_.common.id},       {"type", "message"},        {"role", "assistant"},
            {"model", options_.common.model}, {"content", Json::array()}, {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  // The reference counts what came from the cache apart.
  Json usage_json(const UsageCounts& usage) const {
    return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"output_tokens", usage.completion_tokens}};
  }

  Json stop_json(const UsageCounts& usage) const {
    if (finish_ == Finish::kLength) {
      const bool full = usage.completion_tokens < options_.max_tokens;
      return {{"stop_reason", full ? "model_context_window_exceeded" : "max_tokens"},
              {"stop_sequence", nullptr}};
    }
    if (!stop_sequence_.empty()) return {{"stop_reason", "stop_sequence"}, {"stop_sequence", stop_sequence_}};
    return {{"stop_reason", made_calls_ ? "tool_use" : "end_turn"}, {"stop_sequence", nullptr}};
  }

  void start_stream(const UsageCounts& usage) {
    if (std::exchange(streaming_, true)) return;
    Json start = message();
    start["usage"] = usage_json({usage.prompt_tokens, 0, usage.cached_tokens});
    send("message_start", {{"message", std::move(start)}});
    send("ping", Json::object());
  }

  void send(const char* type, Json fields) {
    if (!streaming_) return;
    Json event = {{"type", type}};
    event.update(fields);
    events_.push_back({type, dump_json(event)});
  }

  void send_delta(const char* type, const char* name, const std::string& text) {
    send("content_block_delta", {{"index", blocks_.size()}, {"delta", {{"type", type}, {name, text}}}});
  }

  void take(ChoiceDelta delta) {
    for (const OutputPart& part : parser_->push(delta.text)) take_part(part);
    if (delta.finish == Finish::kNone) return;
    for (const OutputPart& part : parser_->finish()) take_part(part);
    close();
    finish_ = delta.finish;
    made_calls_ = parser_->made_tool_calls();
    if (const auto* text = std::get_if<std::string>(&delta.stop_reason)) stop_sequence_ = *text;
  }

  void take_part(const OutputPart& part) {
    if (const auto* content = std::get_if<ContentText>(&part)) {
      if (open_ != Open::kText) open(Open::kText, {{"type", "text"}, {"text", ""}});
      text_ += content->text;
      send_delta("text_delta", "text", content->text);
    } else if (const auto* reasoning = std::get_if<ReasoningText>(&part)) {
      if (open_ != Open::kThinking)
        open(Open::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      if (options_.omit_thinking) return;
      text_ += reasoning->text;
      send_delta("thinking_delta", "thinking", reasoning->text);
    } else if (const auto* call = std::get_if<ToolCallBegin>(&part)) {
      open(Open::kToolUse,
           {{"type", "tool_use"}, {"id", call->id}, {"name", call->name}, {"input", Json::object()}});
    } else if (open_ == Open::kToolUse) {
      const std::string& arguments = std::get<ToolArguments>(part).text;
      text_ += arguments;
      send_delta("input_json_delta", "partial_json", arguments);
    }
  }

  void open(Open kind, Json block) {
    close();
    open_ = kind;
    block_ = std::move(block);
    send("content_block_start", {{"index", blocks_.size()}, {"content_block", block_}});
  }

  void close() {
    if (open_ == Open::kNothing) return;
    if (open_ == Open::kText) {
      block_["text"] = text_;
    } else if (open_ == Open::kThinking) {
      block_["thinking"] = text_;
      // Clients send thoughts back only when they are signed. Nothing is checked here, so any text will do.
      block_["signature"] = options_.common.id;
      send_delta("signature_delta", "signature", options_.common.id);
    } else {
      block_["input"] = tool_input(text_);
    }
    send("content_block_stop", {{"index", blocks_.size()}});
    blocks_.push_back(std::move(block_));
    open_ = Open::kNothing;
    text_.clear();
  }

  const MessagesOptions options_;
  const std::unique_ptr<OutputParser> parser_;
  Finish finish_ = Finish::kNone;
  bool made_calls_ = false;
  std::string stop_sequence_;

  Json blocks_ = Json::array();  // those that are complete
  Open open_ = Open::kNothing;
  Json block_;        // the open one
  std::string text_;  // of the open one

  bool streaming_ = false;
  std::vector<StreamEvent> events_;
};

}  // namespace

std::unique_ptr<ResponseBuilder> make_messages_builder(MessagesOptions options,
                                                       std::unique_ptr<OutputParser> parser) {
  return std::make_unique<MessagesBuilder>(std::move(options), std::move(parser));
}

std::string messages_error_json(int status, const ErrorBody& error) {
  return dump_json(error_object(status, error));
}

std::string token_count_json(int64_t input_tokens) {
  return dump_json({{"input_tokens", input_tokens}});
}

}  // namespace pagoda::openai
