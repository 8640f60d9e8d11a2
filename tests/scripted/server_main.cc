// pagoda_scripted_server --script-file F [--port N] [--max-model-len N] ...: prints "port N" and serves until
// SIGTERM.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/log.h"
#include "scripted/scripted_server.h"

namespace {

using pagoda::scripted::ScriptedServerOptions;

int fail(const std::string& message) {
  std::fprintf(stderr, "pagoda_scripted_server: %s\n", message.c_str());
  return 2;
}

ScriptedServerOptions read_options(std::map<std::string, std::string>& flags) {
  const auto number = [&](const char* name, int64_t fallback) {
    return flags.contains(name) ? std::atoll(flags[name].c_str()) : fallback;
  };
  ScriptedServerOptions options;
  options.port = static_cast<uint16_t>(number("--port", 0));
  options.max_model_len = number("--max-model-len", options.max_model_len);
  options.num_blocks = static_cast<int>(number("--num-blocks", options.num_blocks));
  options.max_num_seqs = static_cast<int>(number("--max-num-seqs", options.max_num_seqs));
  options.max_num_queued_reqs = number("--max-num-queued-reqs", options.max_num_queued_reqs);
  options.text_threads = static_cast<int>(number("--text-threads", options.text_threads));
  options.add_bos = number("--add-bos", 0) != 0;
  options.faults = number("--faults", 1) != 0;
  options.strict_params = number("--strict-params", 0) != 0;
  options.stay_loading = number("--stay-loading", 0) != 0;
  options.max_logprobs = static_cast<int>(number("--max-logprobs", options.max_logprobs));
  options.chat_template = flags["--chat-template"];
  options.fim_template = flags["--fim-template"];
  options.batch_dir = flags["--batch-dir"];
  options.seed = number("--seed", options.seed);
  options.stream_interval = number("--stream-interval", options.stream_interval);
  options.sse_ping_interval = std::chrono::milliseconds(number("--sse-ping-ms", 0));
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  pagoda::log::init("warning");
  std::ifstream file(flags["--script-file"], std::ios::binary);
  if (!file) return fail("--script-file names no readable file");
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto table = pagoda::scripted::ScriptTable::parse(json);
  if (!table) return fail(table.error().message);

  // Before any thread starts, so that all of them have the signals blocked and this one waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  auto server = pagoda::scripted::ScriptedServer::start(std::move(*table), read_options(flags));
  if (!server) return fail(server.error().message);
  std::printf("port %d\n", (*server)->port());
  std::fflush(stdout);
  int received = 0;
  sigwait(&signals, &received);
  const std::string& seconds = flags["--shutdown-timeout"];
  (*server)->drain_and_stop(seconds.empty() ? 10.0 : std::atof(seconds.c_str()));
  return 0;
}
