#include "api/openai/infill_response.h"

#include <utility>

#include "api/openai/response_json.h"

namespace pagoda::openai {
namespace {

double per(double amount, double of) {
  return of > 0.0 ? amount / of : 0.0;
}

// "timings/prompt_n" is a name of its own in the answer, as llama-server has it.
Json pick(const Json& whole, const std::vector<std::string>& names) {
  Json picked = Json::object();
  for (const std::string& name : names) {
    const Json* value = &whole;
    for (size_t start = 0; value != nullptr && start <= name.size();) {
      const size_t end = std::min(name.find('/', start), name.size());
      const auto found = value->is_object() ? value->find(name.substr(start, end - start)) : value->end();
      value = value->is_object() && found != value->end() ? &*found : nullptr;
      start = end + 1;
    }
    if (value != nullptr) picked[name] = *value;
  }
  return picked;
}

class InfillBuilder final : public ResponseBuilder {
 public:
  InfillBuilder(InfillOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), start_(clock.now()), prompt_done_(start_) {}

  void set_prompt(int, PromptInfo info) override {
    prompt_done_ = clock_.now();
    prompt_tokens_ = static_cast<int64_t>(info.ids.size());
    truncated_ = info.truncated;
  }

  void add(ChoiceDelta delta) override {
    text_ += delta.text;
    note(delta);
  }

  std::string body(const UsageCounts& usage) override {
    const Json whole = final_json(text_, usage);
    return dump_json(options_.response_fields.empty() ? whole : pick(whole, options_.response_fields));
  }

  std::vector<StreamEvent> events(ChoiceDelta delta, const UsageCounts& usage) override {
    has_new_line_ = has_new_line_ || delta.text.find('\n') != std::string::npos;
    const Json tokens = options_.return_tokens ? ids_json(delta.ids) : Json::array();
    note(delta);
    if (delta.text.empty()) return {};
    const Json event = {{"index", 0},
                        {"content", delta.text},
                        {"tokens", tokens},
                        {"stop", false},
                        {"id_slot", 0},
                        {"tokens_predicted", usage.completion_tokens},
                        {"tokens_evaluated", usage.prompt_tokens}};
    return {{"", dump_json(event)}};
  }

  std::vector<StreamEvent> last_events(const UsageCounts& usage) override {
    ids_.clear();  // were sent with their text
    return {{"", dump_json(final_json("", usage))}};
  }

  std::vector<StreamEvent> error_events(const ErrorBody& error) override { return {{"", error_json(error)}}; }

 private:
  void note(const ChoiceDelta& delta) {
    if (options_.return_tokens) ids_.insert(ids_.end(), delta.ids.begin(), delta.ids.end());
    if (delta.finish == Finish::kNone) return;
    stop_type_ = delta.finish == Finish::kLength ? "limit" : "eos";
    if (const auto* word = std::get_if<std::string>(&delta.stop_reason)) {
      stop_type_ = "word";
      stopping_word_ = *word;
    }
  }

  Json timings(const UsageCounts& usage) const {
    const double prompt_ms = to_seconds(prompt_done_ - start_) * 1000.0;
    const double predicted_ms = to_seconds(clock_.now() - prompt_done_) * 1000.0;
    const auto prompt = static_cast<double>(usage.prompt_tokens - usage.cached_tokens);
    const auto predicted = static_cast<double>(usage.completion_tokens);
    return {{"cache_n", usage.cached_tokens},
            {"prompt_n", usage.prompt_tokens - usage.cached_tokens},
            {"prompt_ms", prompt_ms},
            {"prompt_per_token_ms", per(prompt_ms, prompt)},
            {"prompt_per_second", per(prompt * 1000.0, prompt_ms)},
            {"predicted_n", usage.completion_tokens},
            {"predicted_ms", predicted_ms},
            {"predicted_per_token_ms", per(predicted_ms, predicted)},
            {"predicted_per_second", per(predicted * 1000.0, predicted_ms)}};
  }

  Json final_json(const std::string& content, const UsageCounts& usage) const {
    return {{"index", 0},
            {"content", content},
            {"tokens", ids_json(ids_)},
            {"id_slot", 0},
            {"stop", true},
            {"model", options_.model},
            {"tokens_predicted", usage.completion_tokens},
            {"tokens_evaluated", prompt_tokens_},
            {"has_new_line", has_new_line_ || content.find('\n') != std::string::npos},
            {"truncated", truncated_},
            {"stop_type", stop_type_},
            {"stopping_word", stopping_word_},
            {"tokens_cached", usage.cached_tokens},
            {"timings", timings(usage)}};
  }

  const InfillOptions options_;
  const Clock& clock_;
  const TimePoint start_;
  TimePoint prompt_done_;
  int64_t prompt_tokens_ = 0;
  bool truncated_ = false, has_new_line_ = false;
  std::string text_, stop_type_ = "none", stopping_word_;
  std::vector<TokenId> ids_;
};

}  // namespace

std::unique_ptr<ResponseBuilder> make_infill_builder(InfillOptions options, const Clock& clock) {
  return std::make_unique<InfillBuilder>(std::move(options), clock);
}

}  // namespace pagoda::openai
