#include "cli/eval.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "cli/eval_link.h"
#include "cli/eval_measure.h"
#include "cli/eval_plot.h"
#include "cli/eval_spec.h"
#include "cli/eval_table.h"
#include "cli/eval_text.h"
#include "cli/eval_worker.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "cli/version.h"

namespace pagoda::cli {
namespace {

constexpr int kExitFailedModels = 1, kExitSignal = 130;

// Room for questions and programs where the user says nothing; the model may have less.
constexpr int64_t kDefaultMaxModelLen = 4096, kDefaultWindow = 1024;

// One stream: a prompt, and tokens behind it. The memory figure is taken after one such round, so that it
// does not depend on what else is measured.
constexpr int64_t kSpeedPrompt = 512, kSpeedTokens = 64, kSpeedRounds = 3;

constexpr double kMegabyte = 1e6;

// A line of the table, and how its model is run.
struct PlannedModel {
  EvalRow row;
  std::vector<std::string> args;  // of its process
  int64_t max_len = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer;
};

std::string short_format(const RunPlan& plan) {
  const model::Checkpoint& checkpoint = plan.checkpoint;
  if (plan.decoder.precision == model::WeightPrecision::kFloat32) return "float32";
  const bool layers_as_stored = checkpoint.rounding.empty() || checkpoint.rounding == model::kHeadRounding;
  if (!layers_as_stored) return checkpoint.rounding;
  const std::string head = checkpoint.rounding.empty() ? "" : ", head int8";
  if (!checkpoint.quantization.empty()) return checkpoint.quantization + head;
  // The commonest type of a GGUF's tensors. Norms are F32 in all of them and say nothing.
  std::map<std::string, int> counts;
  for (const auto& tensor : checkpoint.tensors->list()) {
    if (tensor.shape.size() > 1) ++counts[tensor.format];
  }
  const auto commonest = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  return commonest == counts.end() ? checkpoint.format : commonest->first + head;
}

class Evaluation {
 public:
  explicit Evaluation(const EvalFlags& flags) : flags_(flags) { signals_.set_interruptible(false); }

  Result<int> run();

 private:
  Result<void> read_inputs();
  Result<void> plan_models();
  Result<PlannedModel> plan_model(const std::string& text, bool is_reference);
  Result<void> load_tokenizer(PlannedModel& model, const model::Checkpoint& checkpoint);
  Result<void> measure(PlannedModel& model);
  Result<void> measure_run(const PlannedModel& model, EvalWorker& worker, EvalRow& row);
  Result<void> measure_on_text(const PlannedModel& model, EvalWorker& worker, EvalRow& row);
  Result<void> measure_answers(EvalWorker& worker, EvalRow& row);
  Result<void> write_results() const;

  bool stopped() { return signals_.wait_for(std::chrono::milliseconds(0)); }

  const EvalFlags& flags_;
  SignalWatcher signals_;
  EvalProgress progress_;
  std::unique_ptr<ComputePool> pool_;
  EvalSetting setting_;
  std::string text_;
  std::vector<ChoiceQuestion> questions_;
  std::vector<CodeProblem> problems_;
  PythonRunner python_;
  std::vector<PlannedModel> models_;  // the reference first, where there is one
  std::string tokenizer_json_;        // of models_.back()
  std::unique_ptr<EvalWorker> reference_;
};

Error with_name(const std::string& name, Error error) {
  error.message = name + ": " + error.message;
  return error;
}

// Hours of work should not end with a name that can't be written.
Result<void> check_writable(const std::string& path, const char* flag) {
  if (path.empty()) return {};
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (is_folder || access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
    return make_error(ErrorKind::kIo,
                      fmt::format("{} {}: {}", flag, path, is_folder ? "is a folder" : std::strerror(errno)),
                      flag);
  }
  return {};
}

Result<void> write_file(const std::string& path, const std::string& text) {
  errno = 0;
  if (std::ofstream(path, std::ios::binary) << text << std::flush) return {};
  return make_error(ErrorKind::kIo, fmt::format("{}: {}", path, std::strerror(errno)));
}

Result<void> Evaluation::read_inputs() {
  PAGODA_TRY(check_writable(flags_.output, "--out"));
  PAGODA_TRY(check_writable(flags_.plot, "--plot"));
  if (flags_.text != "none") text_ = PAGODA_TRY(read_eval_text(flags_.text));
  if (flags_.text == "none" && !flags_.reference.empty()) {
    return make_error(ErrorKind::kInvalidArgument,
                      "--reference is for the predictions of a text, and --text is none", "--reference");
  }
  const auto reporter = [&](const std::string& path) {
    return [&, path](int64_t line, const std::string& what) {
      progress_.report(fmt::format("{} line {} is skipped: {}", path, line, what));
    };
  };
  if (!flags_.multiple_choice.empty()) {
    questions_ = PAGODA_TRY(
        read_choice_questions(flags_.multiple_choice, flags_.limit, reporter(flags_.multiple_choice)));
  }
  if (flags_.humaneval.empty()) return {};
  if (!flags_.allow_code_execution) {
    return make_error(
        ErrorKind::kInvalidArgument,
        "--humaneval runs programs that a model wrote, as you and without a sandbox: add "
        "--allow-code-execution if that is what you want, best in a container without a network",
        "--humaneval");
  }
  python_ = PAGODA_TRY(PythonRunner::find(flags_.code_timeout_s));
  problems_ = PAGODA_TRY(read_code_problems(flags_.humaneval, flags_.limit, reporter(flags_.humaneval)));
  return {};
}

Result<void> Evaluation::load_tokenizer(PlannedModel& model, const model::Checkpoint& checkpoint) {
  if (!models_.empty() && checkpoint.tokenizer_json == tokenizer_json_) {
    model.tokenizer = models_.back().tokenizer;
    return {};
  }
  if (checkpoint.tokenizer_json.empty()) {
    return make_error(ErrorKind::kUnsupportedModel, checkpoint.path + " has no tokenizer");
  }
  model.tokenizer = PAGODA_TRY(text::load_tokenizer(checkpoint.tokenizer_json));
  tokenizer_json_ = checkpoint.tokenizer_json;
  return {};
}

Result<PlannedModel> Evaluation::plan_model(const std::string& text, bool is_reference) {
  const EvalSpec spec = PAGODA_TRY(parse_eval_spec(text));
  PlannedModel model;
  model.args = engine_args_of(spec, flags_.engine_args, is_reference);
  auto engine = parse_engine_args(spec.model, model.args);
  if (!engine) return with_name(text, std::move(engine).error());
  auto plan = make_run_plan(*engine);
  if (!plan) return with_name(text, std::move(plan).error());
  EvalRow& row = model.row;
  row.name = !spec.name.empty()   ? spec.name
             : spec.flags.empty() ? plan->checkpoint.name
                                  : plan->checkpoint.name + " " + spec.flags;
  row.path = spec.model;
  row.flags = spec.flags;
  row.format = short_format(*plan);
  row.file_format = plan->checkpoint.format;
  row.is_reference = is_reference;
  row.size_mb = static_cast<double>(plan->checkpoint.file_bytes) / kMegabyte;
  model.max_len = plan->engine.max_model_len;
  if (engine->max_model_len.empty()) {
    model.max_len = std::min(model.max_len, std::max(flags_.window, kDefaultMaxModelLen));
    model.args.push_back(fmt::format("--max-model-len={}", model.max_len));
  }
  if (!text_.empty() && model.max_len < flags_.window) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("--window is {}, but {} takes {} tokens", flags_.window, row.name, model.max_len),
        "--window");
  }
  PAGODA_TRY(load_tokenizer(model, plan->checkpoint));
  if (!models_.empty() && models_.front().row.is_reference) {
    auto same = check_same_vocabulary(*models_.front().tokenizer, *model.tokenizer);
    if (!same) return with_name(row.name, std::move(same).error());
  }
  setting_.threads = plan->threads;
  model.args.insert(model.args.begin(), spec.model);
  model.args.push_back("--log-level=" + flags_.log_level);
  return model;
}

Result<void> Evaluation::plan_models() {
  if (!flags_.reference.empty()) {
    models_.push_back(PAGODA_TRY(plan_model(flags_.reference, true)));
    setting_.reference = models_.front().row.name;
  }
  for (const std::string& text : flags_.models) models_.push_back(PAGODA_TRY(plan_model(text, false)));
  setting_.version = kVersion;
  setting_.machine = cpu_model_name();
  if (!text_.empty()) setting_.text = flags_.text;
  setting_.window = flags_.window > 0 ? flags_.window : kDefaultWindow;
  for (const PlannedModel& model : models_) setting_.window = std::min(setting_.window, model.max_len);
  setting_.multiple_choice = flags_.multiple_choice;
  setting_.choice_scoring = flags_.choice_scoring;
  setting_.humaneval = flags_.humaneval;
  pool_ = std::make_unique<ComputePool>(setting_.threads);
  return {};
}

Result<void> Evaluation::measure_run(const PlannedModel& model, EvalWorker& worker, EvalRow& row) {
  const int64_t new_tokens = std::max<int64_t>(1, std::min(kSpeedTokens, model.max_len / 4));
  const auto wanted =
      static_cast<size_t>(std::max<int64_t>(1, std::min(kSpeedPrompt, model.max_len - new_tokens)));
  auto sample = PAGODA_TRY(encode_eval_text(*model.tokenizer, std::string(builtin_eval_text()),
                                            static_cast<int64_t>(wanted), "builtin"));
  nlohmann::json prompt = nlohmann::json::array();
  for (size_t i = 0; i < wanted; ++i) prompt.push_back(sample[i % sample.size()].value);
  progress_.begin(row.name + (flags_.speed ? ", speed" : ", memory"), 1, "");
  const auto answer = PAGODA_TRY(worker.ask({{"op", "run"},
                                             {"prompt", std::move(prompt)},
                                             {"new_tokens", new_tokens},
                                             {"rounds", flags_.speed ? kSpeedRounds : 1}}));
  row.memory_mb = answer.at("memory_bytes").get<double>() / kMegabyte;
  if (!flags_.speed) return {};
  row.prefill = answer.at("prefill").get<double>();
  row.decode = answer.at("decode").get<double>();
  return {};
}

Result<void> Evaluation::measure_on_text(const PlannedModel& model, EvalWorker& worker, EvalRow& row) {
  // With a reference, its tokens and its leading one: both have to see the same.
  const text::Tokenizer& tokenizer =
      setting_.reference.empty() ? *model.tokenizer : *models_.front().tokenizer;
  TextCut cut;
  cut.window = setting_.window;
  cut.bos = PAGODA_TRY(leading_token(tokenizer));
  cut.step = worker.hello().at("step").get<int64_t>();
  if (reference_) cut.step = std::min(cut.step, reference_->hello().at("step").get<int64_t>());
  const auto tokens = PAGODA_TRY(encode_eval_text(tokenizer, text_, flags_.max_tokens, flags_.text));
  EvalContext context{*pool_, progress_, row.name};
  EvalRow& first = models_.front().row;
  const bool score_reference = reference_ && !first.perplexity;
  const TextScores scores =
      PAGODA_TRY(measure_text(context, worker, reference_.get(), cut_text(tokens, cut), score_reference));
  row.text_tokens = std::ssize(tokens);
  row.perplexity = scores.model.perplexity();
  if (score_reference) {
    first.text_tokens = row.text_tokens;
    first.perplexity = scores.reference.perplexity();
  }
  if (!reference_) return {};
  row.kl_mean = scores.model.kl_mean();
  row.kl_p99 = scores.model.kl_p99();
  row.top1_percent = 100 * scores.model.top1_agreement();
  return {};
}

Result<void> Evaluation::measure_answers(EvalWorker& worker, EvalRow& row) {
  EvalContext context{*pool_, progress_, row.name};
  if (!questions_.empty()) {
    const bool letters = flags_.choice_scoring == "letters";
    const ChoiceScore score = PAGODA_TRY(measure_choices(context, worker, questions_, letters));
    row.questions = score.asked;
    row.accuracy_percent = 100 * score.accuracy();
    // Letters are of one length.
    if (!letters) row.accuracy_normalised_percent = 100 * score.accuracy_normalised();
  }
  if (problems_.empty()) return {};
  const CodeOptions options{python_, flags_.max_new_tokens, [this] { return stopped(); }};
  const CodeScore score = PAGODA_TRY(measure_code(context, worker, problems_, options));
  row.problems = score.tried;
  row.problems_passed = score.passed;
  row.problems_timed_out = score.timed_out;
  row.pass_percent = 100 * static_cast<double>(score.passed) / static_cast<double>(score.tried);
  return {};
}

Result<void> Evaluation::measure(PlannedModel& model) {
  EvalRow& row = model.row;
  progress_.begin(row.name + ", loading", 1, "");
  auto worker = PAGODA_TRY(EvalWorker::start(model.args, [this] { return stopped(); }));
  row.weights_mb = worker->hello().at("weight_bytes").get<double>() / kMegabyte;
  row.layout = worker->hello().at("layout").get<std::string>();
  PAGODA_TRY(measure_run(model, *worker, row));
  // A reference reads the text beside the first of the others.
  if (!text_.empty() && !row.is_reference) PAGODA_TRY(measure_on_text(model, *worker, row));
  PAGODA_TRY(measure_answers(*worker, row));
  if (!row.is_reference) return {};
  row.kl_mean = row.kl_p99 = 0;
  row.top1_percent = 100;
  reference_ = std::move(worker);
  return {};
}

Result<void> Evaluation::write_results() const {
  std::vector<EvalRow> rows;
  for (const PlannedModel& model : models_) rows.push_back(model.row);
  const TableFormat format = flags_.format == "json"       ? TableFormat::kJson
                             : flags_.format == "markdown" ? TableFormat::kMarkdown
                                                           : TableFormat::kPlain;
  const std::string table = eval_table(setting_, rows, format);
  if (flags_.output.empty()) {
    std::fwrite(table.data(), 1, table.size(), stdout);
    std::fflush(stdout);
  } else {
    PAGODA_TRY(write_file(flags_.output, table));
  }
  if (flags_.plot.empty()) return {};
  const PlotFigure figure = figure_for_plot(rows);
  Plot plot{.title = figure.title + " over size",
            .x_title = "weights in memory, MB",
            .y_title = figure.title,
            .logarithmic_y = figure.logarithmic,
            .points = {}};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (figure.values[i]) plot.points.push_back({rows[i].name, rows[i].weights_mb, *figure.values[i]});
  }
  return write_file(flags_.plot, plot_svg(plot));
}

Result<int> Evaluation::run() {
  PAGODA_TRY(read_inputs());
  PAGODA_TRY(plan_models());
  int code = 0;
  for (auto model = models_.begin(); model != models_.end();) {
    const auto done = measure(*model);
    progress_.finish();
    if (done) {
      ++model;
    } else if (done.error().kind == ErrorKind::kCancelled) {
      code = kExitSignal;
      models_.erase(model, models_.end());
      break;
    } else if (model->row.is_reference) {
      return with_name(model->row.name, done.error());
    } else {
      progress_.report(model->row.name + ": " + done.error().message);
      code = kExitFailedModels;
      model = models_.erase(model);
    }
  }
  reference_.reset();
  if (!models_.empty()) PAGODA_TRY(write_results());
  if (code == kExitSignal) {
    std::fprintf(stderr, "Stopped%s\n", models_.empty() ? "." : ": the table has the models that were done.");
  }
  return code;
}

}  // namespace

Result<int> run_eval(const EvalFlags& flags) {
  return Evaluation(flags).run();
}

}  // namespace pagoda::cli
