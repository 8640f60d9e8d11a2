// Programs that a model wrote, run against the tests of their problem (Chen et al. 2021, HumanEval).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/eval_jsonl.h"

namespace pagoda::cli {

// What ends a completion: the next thing at the margin is no part of the function.
const std::vector<std::string>& code_stop_strings();

// Prompt, completion, tests, and a last line that only a program that came so far reaches: one that ends
// itself on the way, with whatever code, has not passed.
std::string code_program(const CodeProblem& problem, const std::string& completion);

enum class ProgramEnd : uint8_t { kPassed, kFailed, kTimedOut };

struct PythonRunner {
  std::string interpreter;  // path
  int timeout_s = 10;
  uint64_t memory_bytes = uint64_t{2} << 30;  // address space

  // The python3 of PATH. kNotFound when there is none that works.
  static Result<PythonRunner> find(int timeout_s);

  // In a process group, session and empty folder of its own, without input and output, limited in time, CPU
  // time, memory and size of files; everything of the group is killed at the end. It is no sandbox: the
  // program runs as the user. kCancelled when `stopped` says so.
  Result<ProgramEnd> run(const std::string& program, const std::function<bool()>& stopped) const;
};

}  // namespace pagoda::cli
