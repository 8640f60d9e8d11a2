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
#include "quantize/gguf/gguf_job.h"
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
  const bool always_symmetric = options.method == quantize::Method::kInt8;
  if (always_symmetric && flags.asym) {
    return make_error(ErrorKind::kInvalidArgument, "--asym: the method int8 has no zero points", "--asym");
  }
  const bool always_asymmetric = options.method == quantize::Method::kAwq;
  options.symmetric = flags.sym || (!always_asymmetric && !flags.asym);
  options.act_order = flags.desc_act;
  if (!flags.rounding.empty() && options.method != quantize::Method::kAwq) {
    return make_error(ErrorKind::kInvalidArgument, "--rounding is for the method awq", "--rounding");
  }
  if (flags.rounding == "nearest") options.rounding = quantize::Rounding::kNearest;
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

// Of a file, or of a folder's files.
uint64_t bytes_of(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return std::filesystem::file_size(path, error);
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    bytes += entry.is_regular_file(error) ? entry.file_size(error) : 0;
  }
  return bytes;
}

quantize::Hooks hooks_of(ProgressBar& bar, SignalWatcher& signals) {
  quantize::Hooks hooks;
  hooks.progress = [&bar](const quantize::Hooks::Progress& progress) { bar.show(progress); };
  hooks.cancelled = [&signals] { return signals.wait_for(std::chrono::milliseconds(0)); };
  signals.set_interruptible(false);
  return hooks;
}

void show_sizes(const std::string& out, const model::Checkpoint& checkpoint) {
  std::fprintf(stderr, "%s: %.1f MB of %.1f MB\n", out.c_str(), static_cast<double>(bytes_of(out)) / 1e6,
               static_cast<double>(checkpoint.file_bytes) / 1e6);
}

Result<quantize::GgmlType> gguf_type(const QuantizeFlags& flags) {
  for (const std::string& flag : flags.folder_flags) {
    if (flag == "--method" && flags.method == "rtn") continue;
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("{}{} is not for --format gguf, where --type says all", flag,
                                  flag == "--method" ? " " + flags.method : ""),
                      flag);
  }
  const auto type = quantize::ggml_type_from_name(flags.type);
  if (type) return *type;
  return make_error(
      ErrorKind::kInvalidArgument,
      flags.type.empty()
          ? "--format gguf needs a --type: q4_0, q8_0, q4_k, f16 or f32"
          : fmt::format("--type is '{}'; q4_0, q8_0, q4_k, f16 and f32 can be written", flags.type),
      "--type");
}

Result<void> run_gguf(const QuantizeFlags& flags, SignalWatcher& signals) {
  const quantize::GgmlType type = PAGODA_TRY(gguf_type(flags));
  const model::Checkpoint checkpoint = PAGODA_TRY(model::open_checkpoint(flags.model));
  ComputePool pool(PAGODA_TRY(choose_threads(flags.threads)));
  ProgressBar bar;
  const quantize::Hooks hooks = hooks_of(bar, signals);
  std::fprintf(stderr, "%s (%s) -> %s (GGUF %s)\n", checkpoint.path.c_str(), checkpoint.format.c_str(),
               flags.out.c_str(), flags.type.c_str());
  const auto result = quantize::write_gguf({checkpoint, flags.out, type}, pool, hooks);
  bar.end();
  if (!result && result.error().kind == ErrorKind::kCancelled) {
    return make_error(ErrorKind::kCancelled, "interrupted; nothing has been written");
  }
  PAGODA_TRY(result);
  show_sizes(flags.out, checkpoint);
  return {};
}

}  // namespace

Result<void> run_quantize(const QuantizeFlags& flags) {
  SignalWatcher signals;  // before the pool's threads
  if (flags.format == "gguf") return run_gguf(flags, signals);
  if (!flags.type.empty()) {
    return make_error(ErrorKind::kInvalidArgument, "--type is for --format gguf", "--type");
  }
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
  const auto result = quantize::quantize(job, pool, hooks_of(bar, signals));
  bar.end();
  if (!result && result.error().kind == ErrorKind::kCancelled) {
    return make_error(ErrorKind::kCancelled,
                      fmt::format("interrupted; the same command goes on with {}.partial", flags.out));
  }
  PAGODA_TRY(result);
  show_sizes(flags.out, checkpoint);
  return {};
}

}  // namespace pagoda::cli
