#include "cli/eval_code.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

namespace pagoda::cli {
namespace {

// The exit code of a program that came to its end.
constexpr int kPassedCode = 83;
constexpr rlim_t kMaxFileBytes = 16 << 20, kMaxOpenFiles = 64;
constexpr std::chrono::milliseconds kPoll{5};

Error system_error(const std::string& what) {
  return make_error(ErrorKind::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
}

// A folder that goes with all that is in it.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> make() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "pagoda-eval-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr) return system_error("making a temporary folder");
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(name)));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

void limit(__rlimit_resource resource, rlim_t value) {
  const rlimit both{value, value};
  setrlimit(resource, &both);
}

// Between fork and exec, in a process of several threads: system calls only.
[[noreturn]] void become_program(const PythonRunner& runner, const char* folder, char* const* argv,
                                 char* const* environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  limit(RLIMIT_CPU, static_cast<rlim_t>(runner.timeout_s) + 1);
  limit(RLIMIT_AS, runner.memory_bytes);
  limit(RLIMIT_FSIZE, kMaxFileBytes);
  limit(RLIMIT_NOFILE, kMaxOpenFiles);
  limit(RLIMIT_CORE, 0);
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0 || chdir(folder) != 0) _exit(127);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  execve(runner.interpreter.c_str(), argv, environment);
  _exit(127);
}

}  // namespace

const std::vector<std::string>& code_stop_strings() {
  static const std::vector<std::string> strings = {"\nclass", "\ndef",   "\n#",  "\n@",
                                                   "\nif",    "\nprint", "\n```"};
  return strings;
}

std::string code_program(const CodeProblem& problem, const std::string& completion) {
  return fmt::format("{}{}\n\n{}\n\ncheck({})\n\nimport os\nos._exit({})\n", problem.prompt, completion,
                     problem.test, problem.entry_point, kPassedCode);
}

Result<PythonRunner> PythonRunner::find(int timeout_s) {
  PythonRunner runner;
  runner.timeout_s = timeout_s;
  // A wrapper in PATH may need the environment that programs don't get: the interpreter itself is run.
  FILE* pipe = popen("python3 -c 'import sys; print(sys.executable)' 2>/dev/null", "r");
  std::array<char, 4096> line{};
  if (pipe != nullptr) {
    if (std::fgets(line.data(), line.size(), pipe) != nullptr) runner.interpreter = line.data();
    pclose(pipe);
  }
  while (runner.interpreter.ends_with('\n')) runner.interpreter.pop_back();
  if (runner.interpreter.empty()) {
    return make_error(ErrorKind::kNotFound, "--humaneval runs programs with python3, which was not found",
                      "--humaneval");
  }
  return runner;
}

Result<ProgramEnd> PythonRunner::run(const std::string& program, const std::function<bool()>& stopped) const {
  const auto folder = PAGODA_TRY(ScratchFolder::make());
  const std::string file = folder->path() + "/program.py";
  if (!(std::ofstream(file, std::ios::binary) << program << std::flush)) return system_error(file);
  std::array<std::string, 4> args = {interpreter, "-I", "-B", file};
  std::array<std::string, 3> variables = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + folder->path(),
                                          "LANG=C.UTF-8"};
  std::array<char*, 5> argv{args[0].data(), args[1].data(), args[2].data(), args[3].data(), nullptr};
  std::array<char*, 4> environment{variables[0].data(), variables[1].data(), variables[2].data(), nullptr};
  const pid_t pid = fork();
  if (pid < 0) return system_error("starting python3");
  if (pid == 0) become_program(*this, folder->path().c_str(), argv.data(), environment.data());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  int status = 0;
  bool timed_out = false, cancelled = false;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    cancelled = stopped();
    timed_out = std::chrono::steady_clock::now() >= deadline;
    if (cancelled || timed_out) break;
    std::this_thread::sleep_for(kPoll);
  }
  if (cancelled || timed_out) kill(pid, SIGKILL);  // it may not have its group yet
  kill(-pid, SIGKILL);
  if (cancelled || timed_out) waitpid(pid, &status, 0);
  if (cancelled) return make_error(ErrorKind::kCancelled, "stopped");
  if (timed_out || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)) return ProgramEnd::kTimedOut;
  return WIFEXITED(status) && WEXITSTATUS(status) == kPassedCode ? ProgramEnd::kPassed : ProgramEnd::kFailed;
}

}  // namespace pagoda::cli
