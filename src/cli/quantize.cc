#include "cli/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/thread_pool.h"
#include "cli/batch_progress.h"
#include "cli/calibration_text.h"
#include "cli/eval_text.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "cli/status_line.h"
#include "model/checkpoint.h"
#include "quantize/options.h"
#include "quantize/quantizer.h"
#include "text/tokenizer.h"

namespace pagoda::cli {
namespace {

Result<quantize::Options> make_options(const QuantizeFlags& flags) {
  quantize::Options options;
  const auto method = quantize::method_from_name(flags.method);
  if (!method) {
    return make_error(ErrorKind::kInvalidArgument, fmt::format("--method '{}' is not known", flags.method),
                      "--method");
  }
  options.method = *method;
  const int usual_bits = options.method == quantize::Method::kInt8 ? 8 : 4;
  options.bits = flags.bits != 0 ? flags.bits : usual_bits;
  options.group_size = flags.group_size;
  options.symmetric = flags.sym;
  options.act_order = flags.desc_act;
  return options;
}

// `count` pieces of the text, spread evenly over it; fewer if it has not so many tokens.
Result<quantize::Samples> make_samples(const QuantizeFlags& flags, const model::Checkpoint& checkpoint) {
  const auto text =
      flags.calibration == "builtin"
          ? Result<std::string>(std::string(kBuiltinCalibrationText, sizeof(kBuiltinCalibrationText) - 1))
          : read_eval_text(flags.calibration);
  if (!text) {
    std::string message = text.error().message;
    if (message.starts_with("--text ")) message.erase(0, 7);  // the flag of eval, for which it was written
    return make_error(text.error().kind, "--calibration " + message, "--calibration");
  }
  if (checkpoint.tokenizer_json.empty()) {
    return make_error(
        ErrorKind::kUnsupportedModel,
        fmt::format("{} has no tokenizer, which the method {} needs", checkpoint.path, flags.method));
  }
  const auto tokenizer = PAGODA_TRY(text::load_tokenizer(checkpoint.tokenizer_json));
  const auto leading = PAGODA_TRY(leading_token(*tokenizer));
  const auto tokens = PAGODA_TRY(tokenizer->encode(*text, {false, false}));
  const int64_t longest = std::min(flags.sample_tokens, checkpoint.config.max_positions);
  const auto room = static_cast<size_t>(leading ? longest - 1 : longest);
  const size_t pieces = std::max<size_t>(1, tokens.size() / room);
  const size_t count = std::min(pieces, static_cast<size_t>(flags.samples));
  quantize::Samples samples;
  for (size_t i = 0; i < count; ++i) {
    const size_t first = pieces * i / count * room, size = std::min(room, tokens.size() - first);
    auto& sample = samples.emplace_back();
    if (leading) sample.push_back(*leading);
    sample.insert(sample.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                  tokens.begin() + static_cast<std::ptrdiff_t>(first + size));
  }
  for (const auto& sample : samples) {
    for (const TokenId token : sample) {
      if (token.value >= checkpoint.config.vocab_size) {
        return make_error(ErrorKind::kCorruptFile,
                          fmt::format("{}: its tokenizer gives token {}, beyond the vocabulary of {}",
                                      checkpoint.path, token.value, checkpoint.config.vocab_size));
      }
    }
  }
  return samples;
}

// A bar that is drawn over on a terminal; elsewhere a line now and then.
class ProgressBar {
 public:
  void show(const quantize::Hooks::Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (progress.done < progress.total && now - shown_ < line_.interval()) return;
    shown_ = now;
    BatchSnapshot snapshot;
    snapshot.done = progress.done;
    snapshot.total = progress.total;
    snapshot.done_before = progress.skipped;
    snapshot.seconds = std::chrono::duration<double>(now - start_).count();
    line_.show(progress_text(snapshot, line_.bar_width()));
  }
  void end() const { line_.clear(); }

 private:
  StatusLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), shown_ = start_;
};

uint64_t folder_bytes(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    bytes += entry.is_regular_file(error) ? entry.file_size(error) : 0;
  }
  return bytes;
}

}  // namespace

Result<void> run_quantize(const QuantizeFlags& flags) {
  SignalWatcher signals;  // before the pool's threads
  const quantize::Options options = PAGODA_TRY(make_options(flags));
  const model::Checkpoint checkpoint = PAGODA_TRY(model::open_checkpoint(flags.model));
  PAGODA_TRY(quantize::check_options(options, checkpoint.config));
  ComputePool pool(PAGODA_TRY(choose_threads(flags.threads)));
  std::fprintf(stderr, "%s (%s) -> %s (%s)\n", checkpoint.path.c_str(), checkpoint.format.c_str(),
               flags.out.c_str(), quantize::options_name(options).c_str());
  quantize::Job job{checkpoint, flags.out, options, {}};
  if (options.calibrated()) {
    job.samples = PAGODA_TRY(make_samples(flags, checkpoint));
    std::fprintf(stderr, "calibration: %zu samples of %zu tokens\n", job.samples.size(),
                 job.samples.front().size());
  }
  ProgressBar bar;
  quantize::Hooks hooks;
  hooks.progress = [&](const quantize::Hooks::Progress& progress) { bar.show(progress); };
  hooks.cancelled = [&] { return signals.wait_for(std::chrono::milliseconds(0)); };
  signals.set_interruptible(false);
  const auto result = quantize::quantize(job, pool, hooks);
  bar.end();
  if (!result && result.error().kind == ErrorKind::kCancelled) {
    return make_error(ErrorKind::kCancelled,
                      fmt::format("interrupted; the same command goes on with {}.partial", flags.out));
  }
  PAGODA_TRY(result);
  std::fprintf(stderr, "%s: %.1f MB of %.1f MB\n", flags.out.c_str(),
               static_cast<double>(folder_bytes(flags.out)) / 1e6,
               static_cast<double>(checkpoint.file_bytes) / 1e6);
  return {};
}

}  // namespace pagoda::cli
