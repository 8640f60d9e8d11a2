#include "api/openai/responses_response.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "api/openai/logprobs_json.h"

namespace pagoda::openai {
namespace {

constexpr std::string_view kIdPrefix = "resp_";

// Both ways run through the same events; a whole answer keeps none of them.
class ResponsesBuilder final : public ResponseBuilder {
 public:
  ResponsesBuilder(ResponseOptions options, Json echo, std::unique_ptr<OutputParser> parser)
      : options_(std::move(options)),
        echo_(std::move(echo)),
        id_suffix_(options_.id.substr(options_.id.starts_with(kIdPrefix) ? kIdPrefix.size() : 0)),
        parser_(std::move(parser)) {}

  void set_prompt(int, PromptInfo) override {}

  void add(ChoiceDelta delta) override { take(std::move(delta)); }

  std::string body(const UsageCounts& usage) override { return dump_json(final_response(usage)); }

  std::vector<StreamEvent> events(ChoiceDelta delta, const UsageCounts&) override {
    start_stream();
    take(std::move(delta));
    return std::exchange(events_, {});
  }

  std::vector<StreamEvent> last_events(const UsageCounts& usage) override {
    start_stream();
    const char* type = finish_ == Finish::kLength ? "response.incomplete" : "response.completed";
    send(type, {{"response", final_response(usage)}});
    return std::exchange(events_, {});
  }

  std::vector<StreamEvent> error_events(const ErrorBody& error) override {
    start_stream();
    const std::string& code = error.code.empty() ? error.type : error.code;
    send("error", {{"code", code},
                   {"message", error.message},
                   {"param", error.param.empty() ? Json(nullptr) : Json(error.param)}});
    if (open_ != Open::kNothing) store_item("incomplete");
    Json failed = response("failed");
    failed["error"] = {{"code", code}, {"message", error.message}};
    send("response.failed", {{"response", std::move(failed)}});
    return std::exchange(events_, {});
  }

 private:
  enum class Open : uint8_t { kNothing, kReasoning, kMessage, kCall };

  // --- The response object.

  Json response(const char* status) const {
    Json result = {{"id", options_.id},       {"object", "response"}, {"created_at", options_.created},
                   {"status", status},        {"error", nullptr},     {"incomplete_details", nullptr},
                   {"model", options_.model}, {"output", items_}};
    result.update(echo_);
    result["usage"] = nullptr;
    return result;
  }

  Json final_response(const UsageCounts& usage) {
    const bool cut = finish_ == Finish::kLength;
    Json result = response(cut ? "incomplete" : "completed");
    if (cut) result["incomplete_details"] = {{"reason", "max_output_tokens"}};
    result["usage"] = {
        {"input_tokens", usage.prompt_tokens},
        {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
        {"output_tokens", usage.completion_tokens},
        {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens(usage.completion_tokens)}}},
        {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
    return result;
  }

  // --- Events.

  void start_stream() {
    if (std::exchange(streaming_, true)) return;
    send("response.created", {{"response", response("in_progress")}});
    send("response.in_progress", {{"response", response("in_progress")}});
  }

  void send(const char* type, Json fields) {
    if (!streaming_) return;
    Json event = {{"type", type}, {"sequence_number", sequence_number_++}};
    event.update(fields);
    events_.push_back({type, dump_json(event)});
  }

  // An event of the open item.
  void send_item_event(const char* type, Json fields) {
    if (!streaming_) return;
    Json place = {{"item_id", item_["id"]}, {"output_index", items_.size()}};
    if (open_ != Open::kCall) place["content_index"] = 0;
    place.update(fields);
    send(type, std::move(place));
  }

  // --- The output.

  void take(ChoiceDelta delta) {
    const std::vector<OutputPart> parts = parser_->push(delta.text);
    if (options_.logprobs) {
      scores_.insert(scores_.end(), std::make_move_iterator(delta.scores.begin()),
                     std::make_move_iterator(delta.scores.end()));
    }
    for (const OutputPart& part : parts) take_part(part);
    if (delta.finish == Finish::kNone) return;
    finish_ = delta.finish;
    for (const OutputPart& part : parser_->finish()) take_part(part);
    // An answer of nothing is a message without text.
    if (items_.empty() && open_ == Open::kNothing) switch_to(Open::kMessage);
    if (open_ == Open::kMessage && !scores_.empty()) send_text("");
    close(finish_ == Finish::kLength ? "incomplete" : "completed");
  }

  // An event may hold several tokens, so the share of the text stands for that of the tokens: it doesn't
  // depend on how the output was cut into events.
  int64_t reasoning_tokens(int64_t tokens) const {
    return text_bytes_ == 0 ? 0 : tokens * reasoning_bytes_ / text_bytes_;
  }

  void count(size_t bytes, bool reasoning) {
    text_bytes_ += static_cast<int64_t>(bytes);
    if (reasoning) reasoning_bytes_ += static_cast<int64_t>(bytes);
  }

  void take_part(const OutputPart& part) {
    if (const auto* content = std::get_if<ContentText>(&part)) {
      switch_to(Open::kMessage);
      send_text(content->text);
    } else if (const auto* reasoning = std::get_if<ReasoningText>(&part)) {
      switch_to(Open::kReasoning);
      count(reasoning->text.size(), true);
      text_ += reasoning->text;
      send_item_event("response.reasoning_text.delta", {{"delta", reasoning->text}});
    } else if (const auto* call = std::get_if<ToolCallBegin>(&part)) {
      close("completed");
      open(Open::kCall, call_item(*call));
      count(call->name.size(), false);
    } else if (open_ == Open::kCall) {
      const std::string& arguments = std::get<ToolArguments>(part).text;
      text_ += arguments;
      count(arguments.size(), false);
      send_item_event("response.function_call_arguments.delta", {{"delta", arguments}});
    }
    // Scores are those of the message's text.
    if (open_ != Open::kMessage) scores_.clear();
  }

  void send_text(const std::string& text) {
    text_ += text;
    count(text.size(), false);
    Json scores = chat_logprobs(std::exchange(scores_, {}));
    send_item_event("response.output_text.delta", {{"delta", text}, {"logprobs", scores}});
    for (Json& score : scores) logprobs_.push_back(std::move(score));
  }

  void switch_to(Open kind) {
    if (open_ == kind) return;
    close("completed");
    open(kind, kind == Open::kMessage ? message_item() : reasoning_item());
    send_item_event("response.content_part.added", {{"part", content_part()}});
  }

  void open(Open kind, Json item) {
    open_ = kind;
    item_ = std::move(item);
    send("response.output_item.added", {{"output_index", items_.size()}, {"item", item_}});
  }

  void close(const char* status) {
    if (open_ == Open::kNothing) return;
    if (open_ == Open::kCall) {
      send_item_event("response.function_call_arguments.done",
                      {{"arguments", text_}, {"name", item_["name"]}});
    } else {
      Json done = {{"text", text_}};
      if (open_ == Open::kMessage) done["logprobs"] = logprobs_;
      const bool is_message = open_ == Open::kMessage;
      send_item_event(is_message ? "response.output_text.done" : "response.reasoning_text.done",
                      std::move(done));
      send_item_event("response.content_part.done", {{"part", content_part()}});
    }
    store_item(status);
    send("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", items_.back()}});
  }

  void store_item(const char* status) {
    if (open_ == Open::kCall) {
      item_["arguments"] = text_;
    } else {
      item_["content"] = Json::array({content_part()});
    }
    item_["status"] = status;
    items_.push_back(std::move(item_));
    open_ = Open::kNothing;
    text_.clear();
    logprobs_ = Json::array();
  }

  std::string item_id(const char* prefix) const {
    return fmt::format("{}_{}_{}", prefix, id_suffix_, items_.size());
  }

  Json message_item() const {
    return {{"id", item_id("msg")},
            {"type", "message"},
            {"status", "in_progress"},
            {"role", "assistant"},
            {"content", Json::array()}};
  }

  Json reasoning_item() const {
    return {{"id", item_id("rs")},
            {"type", "reasoning"},
            {"status", "in_progress"},
            {"summary", Json::array()},
            {"content", Json::array()}};
  }

  Json call_item(const ToolCallBegin& call) const {
    return {{"id", item_id("fc")}, {"type", "function_call"}, {"status", "in_progress"},
            {"call_id", call.id},  {"name", call.name},       {"arguments", ""}};
  }

  Json content_part() const {
    if (open_ == Open::kReasoning) return {{"type", "reasoning_text"}, {"text", text_}};
    return {
        {"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
  }

  const ResponseOptions options_;
  const Json echo_;
  const std::string id_suffix_;
  const std::unique_ptr<OutputParser> parser_;
  Finish finish_ = Finish::kNone;

  Json items_ = Json::array();  // those that are complete
  Open open_ = Open::kNothing;
  Json item_;         // the open one
  std::string text_;  // of the open one: text or arguments
  Json logprobs_ = Json::array();
  std::vector<ScoredToken> scores_;               // of tokens without text so far
  int64_t reasoning_bytes_ = 0, text_bytes_ = 0;  // of the parts

  bool streaming_ = false;
  int64_t sequence_number_ = 0;
  std::vector<StreamEvent> events_;
};

}  // namespace

std::unique_ptr<ResponseBuilder> make_responses_builder(ResponseOptions options, Json echo,
                                                        std::unique_ptr<OutputParser> parser) {
  return std::make_unique<ResponsesBuilder>(std::move(options), std::move(echo), std::move(parser));
}

}  // namespace pagoda::openai
