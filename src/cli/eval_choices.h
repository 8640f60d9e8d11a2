// Multiple choice by loglikelihood: what the model is asked, and which choice its answers mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/eval_jsonl.h"

namespace pagoda::cli {

// Texts whose loglikelihoods behind `context` are compared. No examples go before the question ("zero shot").
struct ChoicePrompt {
  std::string context;
  std::vector<std::string> continuations;
};

// The choices are part of the context, and their letters compared, as lm-evaluation-harness does for MMLU:
// "<question>\nA. <choice>\n...\nAnswer:" with " A", " B", ...
ChoicePrompt letters_prompt(const ChoiceQuestion& question);
// Each choice follows the question, as it does for ARC: "Question: <question>\nAnswer:" with " <choice>".
ChoicePrompt texts_prompt(const ChoiceQuestion& question);

// The harness's acc and acc_norm: the highest sum, and the highest sum per character of the choice.
struct ChoiceScore {
  int64_t asked = 0, right = 0, right_normalised = 0;

  void add(const ChoiceQuestion& question, std::span<const double> logprobs);
  double accuracy() const;  // 0 to 1
  double accuracy_normalised() const;
};

}  // namespace pagoda::cli
