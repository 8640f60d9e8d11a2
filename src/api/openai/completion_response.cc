#include <algorithm>
#include <numeric>
#include <utility>

#include "api/openai/logprobs_json.h"
#include "api/openai/response_json.h"

namespace pagoda::openai {
namespace {

constexpr const char* kObject = "text_completion";

class CompletionBuilder final : public ChunkBuilder {
 public:
  explicit CompletionBuilder(ResponseOptions options)
      : ChunkBuilder(options.include_usage),
        options_(std::move(options)),
        prompts_(static_cast<size_t>(options_.num_prompts)) {
    generated_ = static_cast<size_t>(std::max(options_.n, options_.best_of));
    choices_.resize(static_cast<size_t>(options_.num_prompts) * generated_);
  }

  void set_prompt(int prompt, PromptInfo info) override {
    prompts_[static_cast<size_t>(prompt)] = std::move(info);
  }

  void add(ChoiceDelta delta) override {
    Choice& choice = start(&delta);
    choice.text += delta.text;
    choice.ids.insert(choice.ids.end(), delta.ids.begin(), delta.ids.end());
    for (const ScoredToken& scored : delta.scores) choice.sum += scored.token.logprob;
    choice.num_scores += delta.scores.size();
    if (options_.logprobs) choice.logprobs.add(delta.scores);
    if (delta.finish != Finish::kNone) {
      choice.finish = finish_json(delta.finish);
      choice.stop_reason = stop_reason_json(delta);
    }
  }

  std::string body(const UsageCounts& usage) override {
    Json list = Json::array();
    for (const size_t i : answered()) {
      Choice& choice = choices_[i];
      Json entry = {{"index", list.size()},
                    {"text", choice.text},
                    {"logprobs", options_.logprobs ? choice.logprobs.take() : Json(nullptr)},
                    {"finish_reason", choice.finish},
                    {"stop_reason", choice.stop_reason}};
      const PromptInfo& prompt = prompt_of(i);
      entry["prompt_logprobs"] = options_.prompt_logprobs ? prompt_logprobs(prompt.scores) : Json(nullptr);
      if (options_.return_token_ids) {
        entry["prompt_token_ids"] = ids_json(prompt.ids);
        entry["token_ids"] = ids_json(choice.ids);
      }
      list.push_back(std::move(entry));
    }
    Json result = head_json(options_, kObject);
    result["choices"] = std::move(list);
    result["usage"] = usage_json(usage);
    return dump_json(result);
  }

  std::vector<std::string> chunks(ChoiceDelta delta, const UsageCounts& usage) override {
    const bool first = !choices_[static_cast<size_t>(delta.index)].started;
    Choice& choice = start(&delta);
    Json entry = {{"index", delta.index}, {"text", delta.text}};
    entry["logprobs"] = nullptr;
    if (options_.logprobs) {
      choice.logprobs.add(delta.scores);
      entry["logprobs"] = choice.logprobs.take();
    }
    entry["finish_reason"] = finish_json(delta.finish);
    entry["stop_reason"] = stop_reason_json(delta);
    if (options_.return_token_ids) {
      if (first) entry["prompt_token_ids"] = ids_json(prompt_of(static_cast<size_t>(delta.index)).ids);
      entry["token_ids"] = ids_json(delta.ids);
    }
    Json chunk = head_json(options_, kObject);
    chunk["choices"] = Json::array({std::move(entry)});
    set_chunk_usage(options_, usage, &chunk);
    return {dump_json(chunk)};
  }

  std::string usage_chunk(const UsageCounts& usage) override {
    return usage_chunk_json(options_, kObject, usage);
  }

 private:
  struct Choice {
    std::string text;
    std::vector<TokenId> ids;
    CompletionLogprobs logprobs;
    Json finish, stop_reason;
    bool started = false;
    double sum = 0.0;  // of logprobs
    size_t num_scores = 0;

    double mean() const { return num_scores == 0 ? 0.0 : sum / static_cast<double>(num_scores); }
  };

  const PromptInfo& prompt_of(size_t choice) const { return prompts_[choice / generated_]; }

  // The choices of the answer in order: all, or those of each prompt that are likeliest per token.
  std::vector<size_t> answered() const {
    std::vector<size_t> order(choices_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto n = static_cast<size_t>(options_.n);
    if (generated_ == n) return order;
    std::vector<size_t> best;
    for (size_t start = 0; start < order.size(); start += generated_) {
      const auto first = order.begin() + static_cast<std::ptrdiff_t>(start);
      std::stable_sort(first, first + static_cast<std::ptrdiff_t>(generated_),
                       [&](size_t a, size_t b) { return choices_[a].mean() > choices_[b].mean(); });
      best.insert(best.end(), first, first + static_cast<std::ptrdiff_t>(n));
    }
    return best;
  }

  // Puts the echoed prompt in front of the choice's first delta.
  Choice& start(ChoiceDelta* delta) {
    Choice& choice = choices_[static_cast<size_t>(delta->index)];
    if (std::exchange(choice.started, true) || !options_.echo) return choice;
    const PromptInfo& prompt = prompt_of(static_cast<size_t>(delta->index));
    delta->text.insert(0, prompt.text);
    if (options_.logprobs) choice.logprobs.add_prompt(prompt.scores, prompt.text);
    return choice;
  }

  ResponseOptions options_;
  std::vector<PromptInfo> prompts_;
  size_t generated_ = 1;  // choices of each prompt, answered or not
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<ChunkBuilder> make_completion_builder(ResponseOptions options) {
  return std::make_unique<CompletionBuilder>(std::move(options));
}

}  // namespace pagoda::openai
