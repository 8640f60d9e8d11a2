// The measurements of `pagoda eval`, each with one model's worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "cli/eval_choices.h"
#include "cli/eval_code.h"
#include "cli/eval_link.h"
#include "cli/eval_score.h"
#include "cli/status_line.h"

namespace pagoda::cli {

// What people see meanwhile: a bar per measurement, and lines about what is wrong.
class EvalProgress {
 public:
  void begin(std::string label, int64_t total, std::string unit);
  void advance(int64_t done);
  void finish() const { status_.clear(); }
  // Control codes are taken out. Beyond a number of them, they are only counted.
  void report(std::string line);

 private:
  StatusLine status_;
  std::string label_, unit_;
  int64_t total_ = 0;
  int reports_ = 0;
  std::chrono::steady_clock::time_point start_{}, shown_{};
};

struct EvalContext {
  ComputePool& pool;
  EvalProgress& progress;
  std::string name;  // of the model
};

struct TextScores {
  TextScore model;
  TextScore reference;  // empty unless it was asked for
};

// `steps` are of tokens that model and reference (null: none) share; both are as far as each other always, so
// that no more than one step's logits of each are kept. `score_reference`: its own perplexity is wanted too.
Result<TextScores> measure_text(EvalContext& context, EvalWorker& model, EvalWorker* reference,
                                const std::vector<TextStep>& steps, bool score_reference);

// `as_letters`: letters_prompt(), else texts_prompt(). Questions that are too long are reported and skipped.
Result<ChoiceScore> measure_choices(EvalContext& context, EvalWorker& model,
                                    const std::vector<ChoiceQuestion>& questions, bool as_letters);

struct CodeScore {
  int64_t tried = 0, passed = 0, timed_out = 0;
};

struct CodeOptions {
  PythonRunner python;
  int64_t max_new_tokens = 512;
  std::function<bool()> stopped;
};

// Problems that can't be completed, as their prompts are too long, are reported and count as tried.
Result<CodeScore> measure_code(EvalContext& context, EvalWorker& model,
                               const std::vector<CodeProblem>& problems, const CodeOptions& options);

}  // namespace pagoda::cli
