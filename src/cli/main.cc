// pagoda's entry: picks the subcommand; every failure ends in one line and exit code 1 (usage: 2).
#include <cstdio>
#include <exception>

#include "base/log.h"
#include "cli/batch.h"
#include "cli/eval.h"
#include "cli/eval_worker.h"
#include "cli/flags.h"
#include "cli/generate.h"
#include "cli/inspect.h"
#include "cli/quantize.h"
#include "cli/serve.h"

namespace {

int fail(const pagoda::Error& error, int code) {
  std::fprintf(stderr, "pagoda: %s\n", error.message.c_str());
  return code;
}

const std::string& log_level(const pagoda::cli::CommandLine& line) {
  using pagoda::cli::Command;
  switch (line.command) {
    case Command::kServe:
      return line.serve.engine.log_level;
    case Command::kGenerate:
      return line.generate.engine.log_level;
    case Command::kBatch:
      return line.batch.engine.log_level;
    case Command::kEval:
      return line.eval.log_level;
    case Command::kEvalWorker:
      return line.eval_worker.log_level;
    case Command::kQuantize:
      return line.quantize.log_level;
    default:
      return line.inspect.engine.log_level;
  }
}

int run(const pagoda::cli::CommandLine& line) {
  using pagoda::cli::Command;
  pagoda::log::init(log_level(line));
  for (const auto& warning : line.warnings) pagoda::log::warn("{}", warning);
  pagoda::Result<void> result;
  switch (line.command) {
    case Command::kServe:
      result = pagoda::cli::run_serve(line.serve);
      break;
    case Command::kGenerate:
      result = pagoda::cli::run_generate(line.generate);
      break;
    case Command::kBatch: {
      const auto code = pagoda::cli::run_batch(line.batch);
      return code ? *code : fail(code.error(), 1);
    }
    case Command::kInspect:
      result = pagoda::cli::run_inspect(line.inspect);
      break;
    case Command::kEval: {
      const auto code = pagoda::cli::run_eval(line.eval);
      return code ? *code : fail(code.error(), 1);
    }
    case Command::kEvalWorker:
      result = pagoda::cli::run_eval_worker(line.eval_worker);
      break;
    case Command::kQuantize: {
      constexpr int kEndedBySignal = 130;
      result = pagoda::cli::run_quantize(line.quantize);
      if (!result && result.error().kind == pagoda::ErrorKind::kCancelled) {
        return fail(result.error(), kEndedBySignal);
      }
      break;
    }
    case Command::kExit:
      return line.exit_code;
  }
  return result ? 0 : fail(result.error(), 1);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto line = pagoda::cli::parse_command_line({argv + 1, argv + argc});
    if (!line) return fail(line.error(), 2);
    if (line->command == pagoda::cli::Command::kExit) return line->exit_code;
    return run(*line);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pagoda: %s\n", e.what());  // out of memory, a system without threads
    return 1;
  }
}
