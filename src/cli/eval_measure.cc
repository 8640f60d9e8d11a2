#include "cli/eval_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pagoda::cli {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// More than these are only counted.
constexpr int kMaxReports = 20;
constexpr size_t kMaxReportBytes = 300;

json ids_of(const std::vector<TokenId>& tokens) {
  json ids = json::array();
  for (const TokenId token : tokens) ids.push_back(token.value);
  return ids;
}

}  // namespace

void EvalProgress::begin(std::string label, int64_t total, std::string unit) {
  label_ = std::move(label);
  unit_ = std::move(unit);
  total_ = total;
  start_ = steady_clock::now();
  shown_ = {};
  if (status_.bar_width() > 0) status_.show(label_);
}

void EvalProgress::advance(int64_t done) {
  const auto now = steady_clock::now();
  if (shown_ == steady_clock::time_point{}) shown_ = start_;
  if (now - shown_ < status_.interval()) return;
  shown_ = now;
  const auto part = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, total_));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string text =
      fmt::format("{}{}: {}/{} {}", progress_bar(part, status_.bar_width()), label_, done, total_, unit_);
  if (part > 0) text += fmt::format(", {} left", format_duration(seconds / part * (1 - part)));
  status_.show(text);
}

void EvalProgress::report(std::string line) {
  if (++reports_ > kMaxReports) return;
  if (line.size() > kMaxReportBytes) line = line.substr(0, kMaxReportBytes) + "...";
  status_.print("pagoda: " + without_control_codes(std::move(line)) +
                (reports_ == kMaxReports ? " (more of this is not shown)" : ""));
}

Result<TextScores> measure_text(EvalContext& context, EvalWorker& model, EvalWorker* reference,
                                const std::vector<TextStep>& steps, bool score_reference) {
  int64_t total = 0, done = 0;
  for (const TextStep& step : steps) total += std::ssize(step.tokens);
  int64_t width = model.hello().at("vocab").get<int64_t>();
  // Heads may be padded to different sizes; the tokens are the same.
  if (reference != nullptr) width = std::min(width, reference->hello().at("vocab").get<int64_t>());
  for (const TextStep& step : steps) {
    if (std::ranges::max(step.tokens).value < width) continue;
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("token {} of the text is beyond the {} logits that there are",
                                  std::ranges::max(step.tokens).value, width));
  }
  context.progress.begin(context.name + ", text", total, "tokens");
  TextScores scores;
  std::vector<RowScore> rows, exact_rows;
  for (const TextStep& step : steps) {
    const json request = {{"op", "logits"}, {"position", step.position}, {"tokens", ids_of(step.tokens)}};
    PAGODA_TRY(model.ask(request));
    // One after the other: each uses all CPUs.
    if (reference != nullptr) PAGODA_TRY(reference->ask(request));
    rows.resize(step.tokens.size());
    exact_rows.resize(score_reference ? rows.size() : 0);
    context.pool.run(static_cast<int>(rows.size()), [&](int row, int) {
      const auto i = static_cast<size_t>(row);
      const std::span<const float> exact =
          reference != nullptr ? reference->logits(row, width) : std::span<const float>{};
      rows[i] = score_row(model.logits(row, width), exact, step.next[i]);
      if (score_reference) exact_rows[i] = score_row(exact, {}, step.next[i]);
    });
    for (size_t i = 0; i < rows.size(); ++i) scores.model.add(rows[i], step.next[i].value >= 0);
    for (size_t i = 0; i < exact_rows.size(); ++i) {
      scores.reference.add(exact_rows[i], step.next[i].value >= 0);
    }
    done += std::ssize(step.tokens);
    context.progress.advance(done);
  }
  return scores;
}

Result<ChoiceScore> measure_choices(EvalContext& context, EvalWorker& model,
                                    const std::vector<ChoiceQuestion>& questions, bool as_letters) {
  context.progress.begin(context.name + ", multiple choice", std::ssize(questions), "questions");
  ChoiceScore score;
  int64_t done = 0;
  for (const ChoiceQuestion& question : questions) {
    const ChoicePrompt prompt = as_letters ? letters_prompt(question) : texts_prompt(question);
    const json answer = PAGODA_TRY(
        model.ask({{"op", "choices"}, {"context", prompt.context}, {"continuations", prompt.continuations}}));
    if (answer.contains("unusable")) {
      context.progress.report(fmt::format("{}: line {} of the questions is skipped: {}", context.name,
                                          question.line, answer["unusable"].get<std::string>()));
    } else {
      score.add(question, answer.at("logprobs").get<std::vector<double>>());
    }
    context.progress.advance(++done);
  }
  return score;
}

namespace {

// The completions, in the order of the problems; absent where there is none.
Result<std::vector<std::optional<std::string>>> complete(EvalContext& context, EvalWorker& model,
                                                         const std::vector<CodeProblem>& problems,
                                                         int64_t max_new_tokens) {
  json prompts = json::array();
  for (const CodeProblem& problem : problems) prompts.push_back(problem.prompt);
  context.progress.begin(context.name + ", writing code", std::ssize(problems), "problems");
  PAGODA_TRY(model.send({{"op", "complete"},
                         {"prompts", std::move(prompts)},
                         {"max_tokens", max_new_tokens},
                         {"stop", code_stop_strings()}}));
  std::vector<std::optional<std::string>> texts(problems.size());
  for (int64_t done = 0;;) {
    const json answer = PAGODA_TRY(model.next_answer());
    if (answer.empty()) return texts;
    const auto index = answer.at("index").get<size_t>();
    if (answer.contains("unusable")) {
      context.progress.report(fmt::format("{}: {} can't be completed: {}", context.name,
                                          problems.at(index).task_id, answer["unusable"].get<std::string>()));
    } else {
      texts.at(index) = answer.at("text").get<std::string>();
    }
    context.progress.advance(++done);
  }
}

}  // namespace

Result<CodeScore> measure_code(EvalContext& context, EvalWorker& model,
                               const std::vector<CodeProblem>& problems, const CodeOptions& options) {
  const auto texts = PAGODA_TRY(complete(context, model, problems, options.max_new_tokens));
  context.progress.begin(context.name + ", running code", std::ssize(problems), "problems");
  CodeScore score;
  for (size_t i = 0; i < problems.size(); ++i) {
    ++score.tried;
    if (texts[i]) {
      const ProgramEnd end =
          PAGODA_TRY(options.python.run(code_program(problems[i], *texts[i]), options.stopped));
      score.passed += end == ProgramEnd::kPassed;
      score.timed_out += end == ProgramEnd::kTimedOut;
    }
    context.progress.advance(score.tried);
  }
  return score;
}

}  // namespace pagoda::cli
