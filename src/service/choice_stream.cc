#include "service/choice_stream.h"

#include <algorithm>
#include <utility>

namespace pagoda::service {
namespace {

TokenScore token_score(const text::Tokenizer& tokenizer, TokenId id, float logprob) {
  return {id, tokenizer.token_bytes(id), logprob};
}

}  // namespace

ScoredToken score(const text::Tokenizer& tokenizer, const sampling::SampledToken& token) {
  ScoredToken scored{token_score(tokenizer, token.token, token.logprob), token.rank, {}};
  scored.top.reserve(token.top.size());
  for (const auto& top : token.top) scored.top.push_back(token_score(tokenizer, top.token, top.logprob));
  return scored;
}

ChoiceStream::ChoiceStream(const text::Tokenizer& tokenizer, const ChoiceRules& rules,
                           std::unique_ptr<text::DetokenizerStream> stream)
    : tokenizer_(tokenizer), rules_(rules), stream_(std::move(stream)) {
  if (!rules.stop.empty()) matcher_.emplace(rules.stop, rules.include_stop);
}

Result<void> ChoiceStream::push(const engine::EngineEvent& event) {
  if (finished()) return {};
  const bool is_stop_token = event.has_token && event.finish == engine::FinishReason::kStop;
  if (event.has_token && (!is_stop_token || rules_.include_stop)) PAGODA_TRY(add_token(event.token));
  if (finished() || event.finish == engine::FinishReason::kNone) return {};
  flush();
  if (finished()) return {};  // the flushed text completed a stop string
  finish_ = event.finish;
  if (is_stop_token && !is_eos(event.token.token)) pending_.stop_reason = event.token.token;
  return {};
}

std::optional<ChoiceEvent> ChoiceStream::take(int choice) {
  const bool has_end = finished() && !std::exchange(taken_end_, finished());
  if (pending_.text.empty() && !has_end) return std::nullopt;
  ChoiceEvent event = std::exchange(pending_, ChoiceEvent{});
  event.choice = choice;
  event.finish = finish_;
  event.completion_tokens = completion_tokens_;
  return event;
}

Result<void> ChoiceStream::add_token(const sampling::SampledToken& token) {
  const std::string piece = PAGODA_TRY(stream_->push(token.token));
  ++completion_tokens_;
  pending_.token_ids.push_back(token.token);
  if (rules_.logprobs) pending_.logprobs.push_back(score(tokenizer_, token));
  add_text(piece);
  return {};
}

void ChoiceStream::add_text(std::string_view piece) {
  if (!matcher_ || completion_tokens_ <= rules_.min_tokens) {
    pending_.text += piece;
    return;
  }
  text::StopMatcher::Output output = matcher_->push(piece);
  pending_.text += output.text;
  if (!output.stopped) return;
  finish_ = engine::FinishReason::kStop;
  ended_by_stop_string_ = true;
  pending_.stop_reason = rules_.stop[static_cast<size_t>(output.stop_index)];
}

void ChoiceStream::flush() {
  add_text(stream_->finish());
  if (matcher_ && !finished()) pending_.text += matcher_->finish();
}

bool ChoiceStream::is_eos(TokenId id) const {
  return std::find(rules_.eos.begin(), rules_.eos.end(), id) != rules_.eos.end();
}

}  // namespace pagoda::service
