// One choice of a generation: tokens in, certain text out, until a stop string, a stop token or a limit ends
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "sampling/sampler.h"
#include "service/fim_suffix_guard.h"
#include "service/service.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace pagoda::service {

// What all choices of a request share.
struct ChoiceRules {
  std::vector<std::string> stop;
  std::vector<TokenId> eos;                    // the model's own end tokens
  std::vector<TokenId> fim_stops = {};         // end a middle and are never part of it
  std::optional<std::string> fim_suffix = {};  // whose first line the output must not repeat
  bool fim_at_line_start = false;              // where the middle begins
  std::vector<TokenId> shown_specials = {};    // control tokens whose text is output
  bool include_stop = false;
  bool logprobs = false;
  int64_t min_tokens = 0;  // stop strings are looked for behind that many tokens
  int64_t interval = 1;    // tokens between two events
};

// A token of the engine with the bytes of its alternatives.
ScoredToken score(const text::Tokenizer& tokenizer, const sampling::SampledToken& token);

class ChoiceStream {
 public:
  // `tokenizer` and `rules` must outlive this object.
  ChoiceStream(const text::Tokenizer& tokenizer, const ChoiceRules& rules,
               std::unique_ptr<text::DetokenizerStream> stream);

  // Takes one event of this choice; nothing happens after the end. kInternal from the detokenizer.
  Result<void> push(const engine::EngineEvent& event);
  // What was gained since the last call, if it has text or an end.
  std::optional<ChoiceEvent> take(int choice);

  bool finished() const { return finish_ != engine::FinishReason::kNone; }
  // A stop string ended it: the engine doesn't know and must be told.
  bool ended_by_stop_string() const { return ended_by_stop_string_; }
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  Result<void> add_token(const sampling::SampledToken& token);
  void add_text(std::string_view piece);
  void add_certain_text(std::string text);
  void stop_at_suffix();
  void flush();

  const text::Tokenizer& tokenizer_;
  const ChoiceRules& rules_;
  std::unique_ptr<text::DetokenizerStream> stream_;
  std::optional<text::StopMatcher> matcher_;  // absent without stop strings
  std::optional<FimSuffixGuard> guard_;       // absent without a suffix
  ChoiceEvent pending_;
  int64_t completion_tokens_ = 0;
  engine::FinishReason finish_ = engine::FinishReason::kNone;
  bool ended_by_stop_string_ = false;
  bool taken_end_ = false, taken_any_ = false;
};

}  // namespace pagoda::service
