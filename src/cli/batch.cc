#include "cli/batch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "api/http/api.h"
#include "api/http/batch_files.h"
#include "api/http/batch_runner.h"
#include "cli/batch_progress.h"
#include "cli/runtime.h"
#include "cli/served_model.h"
#include "cli/signals.h"
#include "cli/status_line.h"
#include "cli/version.h"
#include "net/http_server.h"
#include "service/service.h"

namespace pagoda::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kExitFailedLines = 1, kExitSignal = 130;

// Lines beyond the sequences that run at once: their prompts are encoded when a place becomes free.
constexpr int kWaitingLines = 16;
constexpr size_t kMaxLineBytes = size_t{32} << 20;

// More failures than these are only counted.
constexpr int kMaxReports = 20;
constexpr size_t kMaxReportBytes = 300;

// An input and whether it is ours to close.
struct Input {
  int fd = STDIN_FILENO;
  std::optional<int64_t> lines;  // absent when only reading it would tell

  Input() = default;
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input() {
    if (fd != STDIN_FILENO) ::close(fd);
  }
};

Error io_error(const std::string& path) {
  return make_error(ErrorKind::kIo, fmt::format("{}: {}", path, std::strerror(errno)));
}

// Lines that are not blank, as the runner counts them.
Result<int64_t> count_lines(int fd, const std::string& path) {
  http::LineReader reader(fd, kMaxLineBytes);
  std::string line;
  int64_t count = 0;
  for (;;) {
    const auto next = PAGODA_TRY(reader.next(line, milliseconds(0)));
    if (next == http::LineReader::Next::kEnd) break;
    if (next != http::LineReader::Next::kNotYet) ++count;
  }
  if (lseek(fd, 0, SEEK_SET) < 0) return io_error(path);
  return count;
}

Result<void> open_input(const std::string& path, Input& input) {
  if (path == "-") return {};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(path);
  input.fd = fd;
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) input.lines = PAGODA_TRY(count_lines(fd, path));
  return {};
}

Result<http::AnswerFile> open_output(const BatchFlags& flags) {
  if (flags.output == "-") return http::AnswerFile::to_descriptor(STDOUT_FILENO);
  struct stat in {
  }, out{};
  if (stat(flags.input.c_str(), &in) == 0 && stat(flags.output.c_str(), &out) == 0 &&
      in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
    return make_error(ErrorKind::kInvalidArgument, "-i and -o are the same file", "--output");
  }
  return http::AnswerFile::open(flags.output);
}

// What the watch and the runner, on threads of their own, have to tell.
class Display {
 public:
  milliseconds interval() const { return status_.interval(); }
  void show(const BatchSnapshot& snapshot) {
    const std::lock_guard lock(mutex_);
    status_.show(progress_text(snapshot, status_.bar_width()));
  }
  void report(int64_t line, std::string message) {
    const std::lock_guard lock(mutex_);
    if (++reports_ > kMaxReports) return;
    if (message.size() > kMaxReportBytes) message = message.substr(0, kMaxReportBytes) + "...";
    status_.print(fmt::format("line {}: {}{}", line, without_control_codes(std::move(message)),
                              reports_ == kMaxReports ? " (further failures are in the output only)" : ""));
  }
  void finish(const std::string& text) {
    const std::lock_guard lock(mutex_);
    status_.print(text);
  }

 private:
  StatusLine status_;
  std::mutex mutex_;
  int reports_ = 0;
};

// Watches for signals and shows the progress until the run is over.
class Watch {
 public:
  Watch(SignalWatcher& signals, http::BatchRunner& runner, Display& display,
        std::function<BatchSnapshot()> snapshot)
      : thread_([this, &signals, &runner, &display, snapshot = std::move(snapshot)] {
          auto shown = std::chrono::steady_clock::now();
          while (!over_.load()) {
            if (signals.wait_for(milliseconds(50))) {
              runner.stop();
              return;
            }
            if (std::chrono::steady_clock::now() - shown < display.interval()) continue;
            shown = std::chrono::steady_clock::now();
            display.show(snapshot());
          }
        }) {}
  ~Watch() {
    over_.store(true);
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace

Result<int> run_batch(const BatchFlags& flags) {
  SignalWatcher signals;
  Input input;
  PAGODA_TRY(open_input(flags.input, input));
  http::AnswerFile output = PAGODA_TRY(open_output(flags));

  const SteadyClock clock;
  RunPlan plan = PAGODA_TRY(make_run_plan(flags.engine));
  std::vector<std::string> names = flags.served_model_name;
  if (names.empty()) names.push_back(plan.checkpoint.name);
  auto runtime = PAGODA_TRY(Runtime::load(std::move(plan), flags.engine.chat_template, {}, clock));
  // Its routes are all that is used of the server: it listens nowhere.
  http::Api api({.version = std::string(kVersion), .strict_params = flags.strict_params}, nullptr);
  net::HttpServer server({}, http::transport_error_body);
  api.register_routes(server);
  service::Service service(runtime->engine(), runtime->tokenizer(), runtime->take_chat_template(),
                           service_options(*runtime, names.front(), flags.text_threads), clock);
  runtime->engine().start();
  api.set_ready(loaded_model(flags.engine, *runtime, service, names));

  Display display;
  http::BatchRunner runner(server, {.window = static_cast<size_t>(service.max_num_seqs() + kWaitingLines),
                                    .background = false,
                                    .endpoint = {},
                                    .on_failure = [&](int64_t line, const std::string& message) {
                                      display.report(line, message);
                                    }});
  const TimePoint start = clock.now();
  const int64_t done_before = output.num_ok() + output.num_failed();
  const auto snapshot = [&] {
    const http::BatchProgress progress = runner.progress();
    return BatchSnapshot{.done = progress.done,
                         .failed = progress.failed,
                         .total = input.lines,
                         .tokens = service.stats().generation_tokens,
                         .seconds = to_seconds(clock.now() - start),
                         .done_before = std::min(done_before, progress.done)};
  };
  signals.set_interruptible(false);
  http::LineReader reader(input.fd, kMaxLineBytes);
  Result<bool> ended = true;
  {
    const Watch watch(signals, runner, display, snapshot);
    ended = runner.run(reader, output, output);
  }
  runtime->engine().stop();
  if (!ended) return ended.error();
  display.finish(progress_text(snapshot(), 0));
  if (!*ended) {
    display.finish("Stopped. Run the same command again to go on: what is answered is not computed again.");
    return kExitSignal;
  }
  return runner.progress().failed > 0 ? kExitFailedLines : 0;
}

}  // namespace pagoda::cli
