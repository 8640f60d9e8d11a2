#include "api/http/event_mapping.h"

#include <utility>

namespace pagoda::http {
namespace {

// The engine's way to say how many alternatives are wanted.
int engine_logprobs(const std::optional<int>& wanted) {
  if (!wanted) return -1;
  return *wanted == openai::kAllLogprobs ? sampling::kAllLogprobs : *wanted;
}

sampling::SamplingParams sampling_params(const openai::SamplingFields& fields) {
  sampling::SamplingParams params;
  params.temperature = static_cast<float>(fields.temperature);
  params.top_p = static_cast<float>(fields.top_p);
  params.top_k = fields.top_k;
  params.min_p = static_cast<float>(fields.min_p);
  params.repetition_penalty = static_cast<float>(fields.repetition_penalty);
  params.frequency_penalty = static_cast<float>(fields.frequency_penalty);
  params.presence_penalty = static_cast<float>(fields.presence_penalty);
  params.logit_bias = fields.logit_bias;
  params.allowed_token_ids = fields.allowed_token_ids;
  params.min_tokens = fields.min_tokens;
  params.stop_token_ids = fields.stop_token_ids;
  return params;
}

openai::TokenLogprob token_logprob(service::TokenScore score) {
  return {score.token, std::move(score.bytes), static_cast<double>(score.logprob)};
}

std::vector<openai::ScoredToken> scored_tokens(std::vector<service::ScoredToken> tokens) {
  std::vector<openai::ScoredToken> result;
  result.reserve(tokens.size());
  for (service::ScoredToken& token : tokens) {
    openai::ScoredToken scored{token_logprob(std::move(token.token)), token.rank, {}};
    for (service::TokenScore& top : token.top) scored.top.push_back(token_logprob(std::move(top)));
    result.push_back(std::move(scored));
  }
  return result;
}

openai::Finish finish_of(engine::FinishReason reason) {
  if (reason == engine::FinishReason::kStop) return openai::Finish::kStop;
  if (reason == engine::FinishReason::kLength) return openai::Finish::kLength;
  return openai::Finish::kNone;
}

service::OutputGrammar::Kind grammar_kind(openai::OutputGrammar::Kind kind) {
  using From = openai::OutputGrammar::Kind;
  using To = service::OutputGrammar::Kind;
  switch (kind) {
    case From::kJsonObject:
      return To::kJsonObject;
    case From::kJsonSchema:
      return To::kJsonSchema;
    case From::kRegex:
      return To::kRegex;
    case From::kChoice:
      return To::kChoice;
    case From::kLark:
      return To::kLark;
    case From::kGbnf:
      break;
  }
  return To::kGbnf;
}

}  // namespace

service::GenerationRequest generation_request(const openai::CommonFields& fields) {
  service::GenerationRequest request;
  request.n = fields.n;
  request.max_tokens = fields.max_tokens;
  request.default_max_tokens = fields.default_max_tokens;
  request.sampling = sampling_params(fields.sampling);
  request.sampling.num_logprobs = engine_logprobs(fields.logprobs);
  if (fields.sampling.seed) request.seed = static_cast<uint64_t>(*fields.sampling.seed);
  request.stop = fields.sampling.stop;
  request.bad_words = fields.sampling.bad_words;
  request.include_stop_str_in_output = fields.sampling.include_stop_str_in_output;
  request.ignore_eos = fields.sampling.ignore_eos;
  request.skip_special_tokens = fields.skip_special_tokens;
  request.shown_special_tokens = fields.shown_special_tokens;
  if (fields.grammar) {
    request.grammar = service::OutputGrammar{grammar_kind(fields.grammar->kind), fields.grammar->text,
                                             fields.grammar->param};
  }
  request.prompt_logprobs = engine_logprobs(fields.prompt_logprobs);
  request.truncate_prompt_tokens = fields.truncate_prompt_tokens;
  request.priority = fields.priority;
  request.cache_salt = fields.cache_salt;
  request.timeout = fields.timeout;
  return request;
}

openai::PromptInfo prompt_info(service::PromptEvent event) {
  return {std::move(event.text), std::move(event.ids), scored_tokens(std::move(event.logprobs)),
          event.fim_cut.any()};
}

openai::ChoiceDelta choice_delta(int index, service::ChoiceEvent event) {
  openai::ChoiceDelta delta;
  delta.index = index;
  delta.text = std::move(event.text);
  delta.ids = std::move(event.token_ids);
  delta.scores = scored_tokens(std::move(event.logprobs));
  delta.finish = finish_of(event.finish);
  delta.stop_reason = std::move(event.stop_reason);
  return delta;
}

}  // namespace pagoda::http
