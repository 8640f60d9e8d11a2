#include "cli/eval_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/eval_worker.h"

namespace pagoda::cli {
namespace {

// How soon a signal ends a wait.
constexpr int kPollMs = 50;

Error system_error(const char* what) {
  return make_error(ErrorKind::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
}

struct Descriptor {
  int fd = -1;
  Descriptor() = default;
  explicit Descriptor(int value) : fd(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

// In a process group of its own, so that the terminal's Ctrl-C is the parent's alone to handle; with all
// signals as they are by default.
Result<pid_t> spawn(const std::vector<std::string>& args, int socket_fd, int logits_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket_fd, kEvalSocketFd);
  posix_spawn_file_actions_adddup2(&actions, logits_fd, kEvalLogitsFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> all_args = {"pagoda", "eval-worker"};
  all_args.insert(all_args.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& arg : all_args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  errno = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (errno != 0) return system_error("starting a process for the model");
  return pid;
}

}  // namespace

JsonSocket::~JsonSocket() {
  ::close(fd_);
}

bool JsonSocket::send(const nlohmann::json& value) {
  const std::string line = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

JsonSocket::Got JsonSocket::receive(nlohmann::json& value, int timeout_ms) {
  for (;;) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      value = nlohmann::json::parse(received_.substr(0, end), nullptr, false);
      received_.erase(0, end + 1);
      return value.is_discarded() ? Got::kEnd : Got::kValue;
    }
    pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wanted, 1, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return Got::kNotYet;
    char buffer[1 << 16];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Got::kEnd;
    received_.append(buffer, static_cast<size_t>(n));
  }
}

Result<std::unique_ptr<EvalWorker>> EvalWorker::start(const std::vector<std::string>& args,
                                                      std::function<bool()> stopped) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_error("socketpair");
  std::unique_ptr<EvalWorker> worker(new EvalWorker());
  worker->socket_ = std::make_unique<JsonSocket>(ends[0]);
  worker->stopped_ = std::move(stopped);
  Descriptor theirs(ends[1]);
  const Descriptor memory(memfd_create("pagoda-eval-logits", MFD_CLOEXEC));
  if (memory.fd < 0) return system_error("memfd_create");
  worker->pid_ = PAGODA_TRY(spawn(args, theirs.fd, memory.fd));
  theirs.close();  // so that the end of the worker is the end of the stream
  worker->hello_ = PAGODA_TRY(worker->next_answer());
  worker->stride_ = worker->hello_.at("stride").get<int64_t>();
  worker->rows_ = worker->hello_.at("step").get<int64_t>();
  const size_t bytes = static_cast<size_t>(worker->stride_ * worker->rows_) * sizeof(float);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.fd, 0);
  if (mapped == MAP_FAILED) return system_error("mapping the logits");
  worker->logits_ = static_cast<const float*>(mapped);
  return worker;
}

EvalWorker::~EvalWorker() {
  if (logits_ != nullptr) {
    munmap(const_cast<float*>(logits_), static_cast<size_t>(stride_ * rows_) * sizeof(float));
  }
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Error EvalWorker::died() {
  int status = 0;
  kill(pid_, SIGKILL);  // it may have closed the socket only
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  const std::string how = !WIFSIGNALED(status) ? fmt::format("ended with code {}", WEXITSTATUS(status))
                          : WTERMSIG(status) == SIGKILL ? "was killed; there may not be enough memory for it"
                                                        : fmt::format("died of signal {}", WTERMSIG(status));
  return make_error(ErrorKind::kInternal, "the model's process " + how);
}

Result<void> EvalWorker::send(const nlohmann::json& request) {
  if (!socket_->send(request)) return died();
  return {};
}

Result<nlohmann::json> EvalWorker::next_answer() {
  for (;;) {
    if (stopped_()) return make_error(ErrorKind::kCancelled, "stopped");
    nlohmann::json answer;
    switch (socket_->receive(answer, kPollMs)) {
      case JsonSocket::Got::kNotYet:
        break;
      case JsonSocket::Got::kEnd:
        return died();
      case JsonSocket::Got::kValue:
        if (!answer.contains("error")) return answer;
        return make_error(ErrorKind::kInvalidArgument, answer["error"].get<std::string>());
    }
  }
}

Result<nlohmann::json> EvalWorker::ask(const nlohmann::json& request) {
  PAGODA_TRY(send(request));
  return next_answer();
}

std::span<const float> EvalWorker::logits(int64_t index, int64_t width) const {
  return {logits_ + index * stride_, static_cast<size_t>(width)};
}

}  // namespace pagoda::cli
