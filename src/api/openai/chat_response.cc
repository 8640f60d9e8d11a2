#include <iterator>
#include <utility>

#include "api/openai/chat_message.h"
#include "api/openai/logprobs_json.h"
#include "api/openai/response_json.h"

namespace pagoda::openai {
namespace {

constexpr const char* kChunkObject = "chat.completion.chunk";

// Scores and token ids are those of all tokens, markup and reasoning included: a stream sends them with the
// next part at or behind their text.
class ChatBuilder final : public ChunkBuilder {
 public:
  explicit ChatBuilder(ResponseOptions options)
      : ChunkBuilder(options.include_usage), options_(std::move(options)) {
    for (int i = 0; i < options_.n; ++i) choices_.emplace_back(options_.parsing);
  }

  void set_prompt(int, PromptInfo info) override { prompt_ = std::move(info); }

  void add(ChoiceDelta delta) override {
    Choice& choice = choices_[static_cast<size_t>(delta.index)];
    for (const OutputPart& part : parse(choice, delta)) choice.message.add(part);
    collect(choice, delta);
  }

  std::string body(const UsageCounts& usage) override {
    Json list = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json entry = {{"index", i},
                    {"message", choice.message.take()},
                    {"logprobs", wrap(std::move(choice.logprobs))},
                    {"finish_reason", choice.finish},
                    {"stop_reason", choice.stop_reason}};
      if (options_.return_token_ids) entry["token_ids"] = ids_json(choice.ids);
      list.push_back(std::move(entry));
    }
    Json result = head_json(options_, "chat.completion");
    result["choices"] = std::move(list);
    result["usage"] = usage_json(usage);
    result["prompt_logprobs"] = options_.prompt_logprobs ? prompt_logprobs(prompt_.scores) : Json(nullptr);
    if (options_.return_token_ids) result["prompt_token_ids"] = ids_json(prompt_.ids);
    return dump_json(result);
  }

  // The role first, then what the choice gains, then the finish reason in a chunk of its own, as OpenAI sends
  // them.
  std::vector<std::string> chunks(ChoiceDelta delta, const UsageCounts& usage) override {
    std::vector<std::string> result;
    Choice& choice = choices_[static_cast<size_t>(delta.index)];
    if (!std::exchange(choice.started, true)) {
      Json entry = chunk_choice(delta.index, {{"role", "assistant"}, {"content", ""}});
      result.push_back(chunk(std::move(entry), usage, !std::exchange(sent_prompt_, true)));
    }
    const bool ends = delta.finish != Finish::kNone;
    std::vector<OutputPart> parts = parse(choice, delta);
    collect(choice, delta);
    const bool has_more = !choice.logprobs.empty() || (options_.return_token_ids && !choice.ids.empty());
    if (parts.empty() && has_more && (ends || !is_parsed())) parts.emplace_back(ContentText{});
    for (const OutputPart& part : parts) {
      Json entry = chunk_choice(delta.index, choice.message.delta(part));
      if (options_.logprobs) entry["logprobs"] = wrap(std::exchange(choice.logprobs, Json::array()));
      if (options_.return_token_ids) entry["token_ids"] = ids_json(std::exchange(choice.ids, {}));
      result.push_back(chunk(std::move(entry), usage, false));
    }
    if (ends) {
      Json entry = chunk_choice(delta.index, Json::object());
      entry["finish_reason"] = choice.finish;
      entry["stop_reason"] = choice.stop_reason;
      result.push_back(chunk(std::move(entry), usage, false));
    }
    return result;
  }

  std::string usage_chunk(const UsageCounts& usage) override {
    return usage_chunk_json(options_, kChunkObject, usage);
  }

 private:
  struct Choice {
    explicit Choice(const OutputParsing& parsing) : parser(make_output_parser(parsing)), message(parsing) {}
    std::unique_ptr<OutputParser> parser;
    ChatMessage message;
    std::vector<TokenId> ids;       // not sent yet
    Json logprobs = Json::array();  // likewise
    Json finish, stop_reason;
    bool started = false;
  };

  bool is_parsed() const { return options_.parsing.tools || options_.parsing.reasoning; }

  static std::vector<OutputPart> parse(Choice& choice, const ChoiceDelta& delta) {
    std::vector<OutputPart> parts = choice.parser->push(delta.text);
    if (delta.finish == Finish::kNone) return parts;
    std::vector<OutputPart> last = choice.parser->finish();
    parts.insert(parts.end(), std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
    return parts;
  }

  void collect(Choice& choice, const ChoiceDelta& delta) const {
    if (options_.return_token_ids) choice.ids.insert(choice.ids.end(), delta.ids.begin(), delta.ids.end());
    if (options_.logprobs) {
      for (Json& entry : chat_logprobs(delta.scores)) choice.logprobs.push_back(std::move(entry));
    }
    if (delta.finish == Finish::kNone) return;
    choice.finish = finish_json(delta.finish);
    choice.stop_reason = stop_reason_json(delta);
    if (delta.finish == Finish::kStop && choice.parser->made_tool_calls()) {
      choice.finish = options_.parsing.legacy_call ? "function_call" : "tool_calls";
    }
  }

  Json wrap(Json content) const {
    if (!options_.logprobs) return nullptr;
    return {{"content", std::move(content)}};
  }

  static Json chunk_choice(int index, Json delta) {
    return {{"index", index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  }

  std::string chunk(Json choice, const UsageCounts& usage, bool with_prompt) const {
    Json result = head_json(options_, kChunkObject);
    result["choices"] = Json::array({std::move(choice)});
    set_chunk_usage(options_, usage, &result);
    if (with_prompt && options_.return_token_ids) result["prompt_token_ids"] = ids_json(prompt_.ids);
    return dump_json(result);
  }

  ResponseOptions options_;
  PromptInfo prompt_;
  std::vector<Choice> choices_;
  bool sent_prompt_ = false;
};

}  // namespace

std::unique_ptr<ChunkBuilder> make_chat_builder(ResponseOptions options) {
  return std::make_unique<ChatBuilder>(std::move(options));
}

}  // namespace pagoda::openai
