#include "service/generation_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/rng.h"

namespace pagoda::service {
namespace {

// As many tokens of the prompt as a detokenizer could need to know that its output goes on inside a word or
// character.
constexpr size_t kDetokenizerContext = 32;

// What a prompt that is cut to fit leaves free for an output that may take the rest of the context.
constexpr int64_t kOpenOutputTokens = 1024;

RequestId next_request_id() {
  static std::atomic<uint64_t> next{1};
  return RequestId{next.fetch_add(1, std::memory_order_relaxed)};
}

std::optional<TimePoint> deadline_of(const GenerationRequest& request, const Clock& clock) {
  if (!request.timeout) return std::nullopt;
  return clock.now() + *request.timeout;
}

bool is_failure(engine::FinishReason reason) {
  return reason == engine::FinishReason::kAborted || reason == engine::FinishReason::kDeadline ||
         reason == engine::FinishReason::kError;
}

Error timeout_error(const GenerationRequest& request) {
  const int64_t limit_ms = request.timeout ? request.timeout->count() : 0;
  return make_error(ErrorKind::kDeadlineExceeded,
                    fmt::format("The request was not finished within its time limit of {} ms.", limit_ms), {},
                    "timeout");
}

// The bytes and scores of a token's alternatives can be as many as the vocabulary.
std::shared_ptr<Executor> executor_for(const GenerationRequest& request, std::shared_ptr<Executor> executor) {
  return request.sampling.num_logprobs == -1 ? std::move(executor) : nullptr;
}

}  // namespace

GenerationTask::GenerationTask(const ServiceContext& context, GenerationRequest request, GenerationSink sink,
                               std::shared_ptr<Executor> executor)
    : context_(context),
      request_(std::move(request)),
      sink_(std::move(sink)),
      executor_(executor_for(request_, std::move(executor))),
      id_(next_request_id()),
      deadline_(deadline_of(request_, context.clock)) {
  rules_.stop = request_.stop;
  rules_.eos = context.options.eos;
  rules_.include_stop = request_.include_stop_str_in_output;
  if (request_.skip_special_tokens) rules_.shown_specials = request_.shown_special_tokens;
  rules_.logprobs = request_.sampling.num_logprobs != -1;
  rules_.min_tokens = request_.sampling.min_tokens;
  rules_.interval = context.options.stream_interval;
  if (const auto* fim = std::get_if<FimPrompt>(&request_.prompt)) {
    rules_.fim_stops = context.encoder.fim_stop_ids();
    if (fim->stop_at_suffix) rules_.fim_suffix = fim->suffix;
    rules_.fim_at_line_start = fim->prefix.empty() || fim->prefix.back() == '\n';
  }
}

void GenerationTask::start(AcceptedCallback accepted) {
  context_.pool.post_bulk(
      [self = shared_from_this(), accepted = std::move(accepted)] { self->prepare(accepted); });
}

void GenerationTask::cancel() {
  cancelled_.store(true);
  context_.engine.abort(id_);
}

void GenerationTask::prepare(const AcceptedCallback& accepted) {
  Result<void> submitted;
  try {
    submitted = submit();
  } catch (const std::exception& failure) {
    submitted =
        make_error(ErrorKind::kInternal, fmt::format("Preparing the request failed: {}", failure.what()));
  }
  if (!submitted) {
    ended_ = true;
    return accepted(std::move(submitted).error());
  }
  accepted(std::shared_ptr<Generation>(shared_from_this()));
  finish_turn();
}

Result<void> GenerationTask::submit() {
  engine::EngineRequest request = PAGODA_TRY(engine_request());
  if (deadline_ && context_.clock.now() >= *deadline_) return timeout_error(request_);
  choices_.reserve(static_cast<size_t>(request.n));
  const size_t context_size = std::min(prompt_ids_.size(), kDetokenizerContext);
  const auto tail = std::span<const TokenId>(prompt_ids_).last(context_size);
  for (int i = 0; i < request.n; ++i) {
    choices_.emplace_back(context_.tokenizer, rules_,
                          context_.tokenizer.stream(tail, request_.skip_special_tokens));
  }
  request.sink = [self = shared_from_this()](std::span<const engine::EngineEvent> events) {
    self->receive(events);
  };
  return context_.engine.submit(std::move(request));
}

// Into prompt_ids_ and prompt_text_.
Result<void> GenerationTask::encode_prompt() {
  const int64_t max_len = context_.engine.options().max_model_len;
  if (const auto* fim = std::get_if<FimPrompt>(&request_.prompt)) {
    PAGODA_TRY(check_token_ids());
    EncodedFim encoded = PAGODA_TRY(context_.encoder.encode_fim(*fim, max_len - reserved_tokens()));
    prompt_ids_ = std::move(encoded.ids);
    fim_cut_ = encoded.cut;
    return {};
  }
  const int64_t keep = request_.truncate_prompt_tokens < 0 ? std::max<int64_t>(max_len - reserved_tokens(), 1)
                                                           : request_.truncate_prompt_tokens;
  if (keep == 0) {
    const int64_t excess = PAGODA_TRY(context_.encoder.certain_excess(request_.prompt, max_len));
    if (excess > 0)
      return context_error(excess, !std::holds_alternative<std::vector<TokenId>>(request_.prompt));
  }
  PAGODA_TRY(check_token_ids());
  auto rendered = PAGODA_TRY(context_.encoder.encode(request_.prompt, context_.options.vocab_size, true));
  prompt_ids_ = std::move(rendered.ids);
  prompt_text_ = std::move(rendered.text);
  if (keep > 0 && std::cmp_greater(prompt_ids_.size(), keep)) {
    prompt_ids_.erase(prompt_ids_.begin(), prompt_ids_.end() - keep);
    prompt_text_.clear();
  }
  return {};
}

// Of the context, for the output.
int64_t GenerationTask::reserved_tokens() const {
  const int64_t max_len = context_.engine.options().max_model_len;
  const int64_t wanted = request_.max_tokens.value_or(
      request_.default_max_tokens.value_or(std::min(kOpenOutputTokens, max_len / 4)));
  return std::min(wanted, max_len);
}

// A server with a seed answers the same requests in the same order alike.
uint64_t GenerationTask::own_seed() const {
  if (!context_.options.seed) return random_seed();
  const auto id = static_cast<uint64_t>(id_.value);
  const auto words =
      philox4x32({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32), 0, 0}, *context_.options.seed);
  return uint64_t{words[0]} << 32 | words[1];
}

Result<engine::EngineRequest> GenerationTask::engine_request() {
  PAGODA_TRY(encode_prompt());
  if (prompt_ids_.empty()) {
    return make_error(ErrorKind::kInvalidArgument, "The prompt has no tokens; at least one is needed.",
                      prompt_param(request_.prompt));
  }
  const auto* text = std::get_if<TextPrompt>(&request_.prompt);
  const bool truly_empty = text != nullptr && text->text.empty();  // its tokens are not the user's
  if (request_.prompt_text && prompt_text_.empty() && !truly_empty) {
    prompt_text_ = PAGODA_TRY(context_.tokenizer.decode(prompt_ids_, false));
  }

  engine::EngineRequest request;
  request.id = id_;
  request.prompt = prompt_ids_;
  request.n = request_.n;
  request.max_tokens = PAGODA_TRY(choose_max_tokens(static_cast<int64_t>(prompt_ids_.size())));
  request.sampling = request_.sampling;
  request.sampling.seed = request_.seed ? *request_.seed : own_seed();
  if (!request_.ignore_eos) {
    auto& stops = request.sampling.stop_token_ids;
    stops.insert(stops.end(), context_.options.eos.begin(), context_.options.eos.end());
  }
  auto& stop_ids = request.sampling.stop_token_ids;
  stop_ids.insert(stop_ids.end(), rules_.fim_stops.begin(), rules_.fim_stops.end());
  PAGODA_TRY(encode_bad_words(&request.sampling));
  if (request_.grammar) {
    request.constraints = PAGODA_TRY(context_.grammars.constraints(*request_.grammar, request.n));
  }
  request.prompt_logprobs = request_.prompt_logprobs;
  request.priority = request_.priority;
  request.background = request_.background;
  request.cache_salt = request_.cache_salt;
  request.deadline = deadline_;
  return request;
}

Result<int64_t> GenerationTask::choose_max_tokens(int64_t prompt_tokens) const {
  const int64_t rest = context_.engine.options().max_model_len - prompt_tokens;
  // Without a wish at least one token must fit. Compared by subtraction, as max_tokens may be near 2^63.
  if (request_.max_tokens.value_or(1) > rest) return context_error(prompt_tokens, false);
  const int64_t max_tokens =
      request_.max_tokens ? *request_.max_tokens : std::min(request_.default_max_tokens.value_or(rest), rest);
  if (request_.max_tokens && request_.sampling.min_tokens > max_tokens) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("min_tokens is {}, more than max_tokens, which is {}.",
                                  request_.sampling.min_tokens, max_tokens),
                      "min_tokens");
  }
  return max_tokens;
}

// The words are vLLM's, since clients match them.
Error GenerationTask::context_error(int64_t prompt_tokens, bool at_least) const {
  const int64_t output = request_.max_tokens.value_or(1);
  const int64_t total = output > INT64_MAX - prompt_tokens ? INT64_MAX : output + prompt_tokens;
  const char* least = at_least ? "at least " : "";
  return make_error(
      ErrorKind::kContextLengthExceeded,
      fmt::format("This model's maximum context length is {} tokens. However, you requested {} output "
                  "tokens and your prompt contains {}{} input tokens, for a total of {}{} tokens. Please "
                  "reduce the length of the input prompt or the number of requested output tokens.",
                  context_.engine.options().max_model_len, output, least, prompt_tokens, least, total),
      prompt_param(request_.prompt), "context_length_exceeded");
}

Result<void> GenerationTask::check_token_ids() const {
  const auto check = [&](TokenId id, const char* field) -> Result<void> {
    if (id.value >= 0 && id.value < context_.options.vocab_size) return {};
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("Token id {} in {} is out of vocabulary: ids are 0 to {}.", id.value, field,
                                  context_.options.vocab_size - 1),
                      field);
  };
  const sampling::SamplingParams& sampling = request_.sampling;
  for (const auto& [id, bias] : sampling.logit_bias) PAGODA_TRY(check(id, "logit_bias"));
  for (const TokenId id : sampling.allowed_token_ids) PAGODA_TRY(check(id, "allowed_token_ids"));
  for (const TokenId id : sampling.stop_token_ids) PAGODA_TRY(check(id, "stop_token_ids"));
  return {};
}

// Each word as it stands and, as vLLM does, with a space in front where that is one other first token.
Result<void> GenerationTask::encode_bad_words(sampling::SamplingParams* sampling) const {
  const text::EncodeOptions plain{.add_special_tokens = false, .parse_special_tokens = false};
  for (const std::string& word : request_.bad_words) {
    const size_t start = std::min(word.find_first_not_of(' '), word.size());
    const std::string bare = word.substr(start);
    auto ids = PAGODA_TRY(context_.tokenizer.encode(bare, plain));
    auto spaced = PAGODA_TRY(context_.tokenizer.encode(" " + bare, plain));
    if (ids.empty()) {
      return make_error(ErrorKind::kInvalidArgument, "bad_words holds a string without tokens.", "bad_words");
    }
    const bool another = spaced.size() == ids.size() && spaced.front() != ids.front();
    sampling->bad_words.push_back(std::move(ids));
    if (another) sampling->bad_words.push_back(std::move(spaced));
  }
  return {};
}

void GenerationTask::receive(std::span<const engine::EngineEvent> events) {
  bool quick = false;
  {
    const std::lock_guard lock(mutex_);
    received_.insert(received_.end(), events.begin(), events.end());
    if (std::exchange(scheduled_, true)) return;
    quick = quick_;
  }
  schedule(quick);
}

void GenerationTask::schedule(bool quick) {
  if (quick && executor_->post(shared_from_this())) return;
  context_.pool.post_quick(shared_from_this());
}

void GenerationTask::finish_turn() {
  const bool quick = executor_ != nullptr && prompt_sent_;
  {
    const std::lock_guard lock(mutex_);
    quick_ = quick;
    scheduled_ = !received_.empty();
    if (!scheduled_) return;
  }
  schedule(quick);
}

void GenerationTask::run() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(received_);
  }
  try {
    process(taken_);
  } catch (const std::exception& failure) {
    send_gained_text();
    end(make_error(ErrorKind::kInternal, fmt::format("Decoding the output failed: {}", failure.what())));
  }
  taken_.clear();
  finish_turn();
}

void GenerationTask::process(const std::vector<engine::EngineEvent>& events) {
  if (ended_ || events.empty()) return;
  for (const engine::EngineEvent& event : events) {
    cached_tokens_ = std::max(cached_tokens_, event.cached_tokens);
    ChoiceStream& choice = choices_[static_cast<size_t>(event.choice)];
    if (choice.finished()) continue;
    if (is_failure(event.finish)) return finish_on(event.finish);
    if (!prompt_sent_) send_prompt_event(events);
    const Result<void> pushed = choice.push(event);
    if (!pushed) {
      send_gained_text();
      return end(pushed.error());
    }
    if (choice.ended_by_stop_string() && event.finish == engine::FinishReason::kNone) {
      context_.engine.abort(id_, event.choice);
    }
  }
  send_gained_text();
  const auto finished = [](const ChoiceStream& choice) { return choice.finished(); };
  if (std::all_of(choices_.begin(), choices_.end(), finished)) end(std::nullopt);
}

// Before a failure, too: text that is certain belongs to the client.
void GenerationTask::send_gained_text() {
  if (!prompt_sent_ || ended_) return;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (auto gained = choices_[i].take(static_cast<int>(i))) sink_(std::move(*gained));
  }
}

void GenerationTask::send_prompt_event(const std::vector<engine::EngineEvent>& events) {
  prompt_sent_ = true;
  PromptEvent prompt;
  prompt.ids = prompt_ids_;
  prompt.cached_tokens = cached_tokens_;
  prompt.fim_cut = fim_cut_;
  if (request_.prompt_text) prompt.text = prompt_text_;
  const auto scored =
      std::find_if(events.begin(), events.end(), [](const auto& e) { return e.prompt_logprobs != nullptr; });
  if (scored != events.end()) {
    // The first entry has no score; it names the first token, which the engine leaves out.
    const TokenId first = prompt_ids_.front();
    prompt.logprobs.push_back({{first, context_.tokenizer.token_bytes(first), 0.0f}, 0, {}});
    for (size_t i = 1; i < scored->prompt_logprobs->size(); ++i) {
      prompt.logprobs.push_back(score(context_.tokenizer, (*scored->prompt_logprobs)[i]));
    }
  }
  sink_(std::move(prompt));
}

void GenerationTask::finish_on(engine::FinishReason reason) {
  send_gained_text();
  if (reason == engine::FinishReason::kDeadline) return end(timeout_error(request_));
  if (reason == engine::FinishReason::kError) {
    return end(make_error(ErrorKind::kInternal, "The engine failed on this request."));
  }
  if (cancelled_.load()) return end(make_error(ErrorKind::kCancelled, "The request was cancelled."));
  end(make_error(ErrorKind::kShuttingDown, "The server shut down before the request was finished.", {},
                 "shutting_down"));
}

void GenerationTask::end(std::optional<Error> error) {
  if (std::exchange(ended_, true)) return;
  // Harmless when the engine has finished it; else the other choices must not run on.
  if (error) context_.engine.abort(id_);
  EndEvent event;
  event.usage.prompt_tokens = static_cast<int64_t>(prompt_ids_.size());
  event.usage.cached_tokens = cached_tokens_;
  for (const ChoiceStream& choice : choices_) event.usage.completion_tokens += choice.completion_tokens();
  event.error = std::move(error);
  // The sink keeps the transport's objects alive, and those keep this one.
  const GenerationSink sink = std::exchange(sink_, nullptr);
  sink(std::move(event));
}

}  // namespace pagoda::service
