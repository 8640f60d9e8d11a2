#include "cli/quantize.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/thread_pool.h"
#include "cli/batch_progress.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "cli/status_line.h"
#include "model/checkpoint.h"
#include "quantize/options.h"
#include "quantize/quantizer.h"

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
  return options;
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
  ProgressBar bar;
  quantize::Hooks hooks;
  hooks.progress = [&](const quantize::Hooks::Progress& progress) { bar.show(progress); };
  hooks.cancelled = [&] { return signals.wait_for(std::chrono::milliseconds(0)); };
  signals.set_interruptible(false);
  const auto result = quantize::quantize(checkpoint, flags.out, options, pool, hooks);
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
