#include <utility>

#include "api/openai/logprobs_json.h"
#include "api/openai/response_json.h"

namespace pagoda::openai {
namespace {

constexpr const char* kChunkObject = "chat.completion.chunk";

class ChatBuilder final : public ChunkBuilder {
 public:
  explicit ChatBuilder(ResponseOptions options)
      : ChunkBuilder(options.include_usage), options_(std::move(options)), choices_(static_cast<size_t>(options_.n)) {}

  void set_prompt(int, PromptInfo info) override { prompt_ = std::move(info); }

  void add(ChoiceDelta delta) override {
    Choice& choice = choices_[static_cast<size_t>(delta.index)];
    choice.text += delta.text;
    choice.ids.insert(choice.ids.end(), delta.ids.begin(), delta.ids.end());
    if (options_.logprobs) {
      for (Json& entry : chat_logprobs(delta.scores)) choice.logprobs.push_back(std::move(entry));
    }
    if (delta.finish != Finish::kNone) {
      choice.finish = finish_json(delta.finish);
      choice.stop_reason = stop_reason_json(delta);
    }
  }

  std::string body(const UsageCounts& usage) override {
    Json list = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json entry = {{"index", i},
                    {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
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

  // The role first, then content, then the finish reason in a chunk of its own, as OpenAI sends them.
  std::vector<std::string> chunks(ChoiceDelta delta, const UsageCounts& usage) override {
    std::vector<std::string> result;
    Choice& choice = choices_[static_cast<size_t>(delta.index)];
    if (!std::exchange(choice.started, true)) {
      Json entry = chunk_choice(delta.index, {{"role", "assistant"}, {"content", ""}});
      result.push_back(chunk(std::move(entry), usage, !std::exchange(sent_prompt_, true)));
    }
    const bool has_scores = options_.logprobs && !delta.scores.empty();
    if (!delta.text.empty() || has_scores || (options_.return_token_ids && !delta.ids.empty())) {
      Json entry = chunk_choice(delta.index, {{"content", delta.text}});
      if (options_.logprobs) entry["logprobs"] = wrap(chat_logprobs(delta.scores));
      if (options_.return_token_ids) entry["token_ids"] = ids_json(delta.ids);
      result.push_back(chunk(std::move(entry), usage, false));
    }
    if (delta.finish != Finish::kNone) {
      Json entry = chunk_choice(delta.index, Json::object());
      entry["finish_reason"] = finish_json(delta.finish);
      entry["stop_reason"] = stop_reason_json(delta);
      result.push_back(chunk(std::move(entry), usage, false));
    }
    return result;
  }

  std::string usage_chunk(const UsageCounts& usage) override {
    return usage_chunk_json(options_, kChunkObject, usage);
  }

 private:
  struct Choice {
    std::string text;
    std::vector<TokenId> ids;
    Json logprobs = Json::array();
    Json finish, stop_reason;
    bool started = false;
  };

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
