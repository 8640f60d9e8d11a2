#include "service/choice_stream.h"

#include <algorithm>
#include <utility>

namespace pagoda::service {
namespace {

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

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
  if (rules.fim_suffix) guard_.emplace(*rules.fim_suffix, rules.fim_at_line_start);
}

Result<void> ChoiceStream::push(const engine::EngineEvent& event) {
  if (finished()) return {};
  const bool is_stop_token = event.has_token && event.finish == engine::FinishReason::kStop;
  const bool is_hidden =
      is_stop_token && (!rules_.include_stop || contains(rules_.fim_stops, event.token.token));
  if (event.has_token && !is_hidden) PAGODA_TRY(add_token(event.token));
  if (finished() || event.finish == engine::FinishReason::kNone) return {};
  flush();
  if (finished()) return {};  // the flushed text completed a stop string
  finish_ = event.finish;
  const bool is_end =
      contains(rules_.eos, event.token.token) || contains(rules_.fim_stops, event.token.token);
  if (is_stop_token && !is_end) pending_.stop_reason = event.token.token;
  return {};
}

std::optional<ChoiceEvent> ChoiceStream::take(int choice) {
  const bool has_end = finished() && !std::exchange(taken_end_, finished());
  if (pending_.text.empty() && !has_end) return std::nullopt;
  if (taken_any_ && !has_end && std::cmp_less(pending_.token_ids.size(), rules_.interval))
    return std::nullopt;
  taken_any_ = true;
  ChoiceEvent event = std::exchange(pending_, ChoiceEvent{});
  event.choice = choice;
  event.finish = finish_;
  event.completion_tokens = completion_tokens_;
  return event;
}

Result<void> ChoiceStream::add_token(const sampling::SampledToken& token) {
  std::string piece = PAGODA_TRY(stream_->push(token.token));
  if (std::ranges::find(rules_.shown_specials, token.token) != rules_.shown_specials.end()) {
    piece += tokenizer_.token_bytes(token.token);
  }
  ++completion_tokens_;
  pending_.token_ids.push_back(token.token);
  if (rules_.logprobs) pending_.logprobs.push_back(score(tokenizer_, token));
  add_text(piece);
  return {};
}

void ChoiceStream::add_text(std::string_view piece) {
  if (completion_tokens_ <= rules_.min_tokens) {
    pending_.text += guard_ ? guard_->pass(piece) : piece;
    return;
  }
  if (!matcher_) return add_certain_text(std::string(piece));
  text::StopMatcher::Output output = matcher_->push(piece);
  add_certain_text(std::move(output.text));
  if (!output.stopped || finished()) return;
  if (guard_) pending_.text += guard_->finish();
  finish_ = engine::FinishReason::kStop;
  ended_by_stop_string_ = true;
  pending_.stop_reason = rules_.stop[static_cast<size_t>(output.stop_index)];
}

// What the stop strings let pass.
void ChoiceStream::add_certain_text(std::string text) {
  if (!guard_) {
    pending_.text += text;
    return;
  }
  pending_.text += guard_->push(text);
  if (guard_->stopped()) stop_at_suffix();
}

void ChoiceStream::stop_at_suffix() {
  finish_ = engine::FinishReason::kStop;
  ended_by_stop_string_ = true;
  pending_.stop_reason = guard_->line();
}

void ChoiceStream::flush() {
  add_text(stream_->finish());
  if (matcher_ && !finished()) add_certain_text(matcher_->finish());
  if (!guard_ || finished()) return;
  pending_.text += guard_->finish();
  if (guard_->stopped()) stop_at_suffix();
}

}  // namespace pagoda::service
