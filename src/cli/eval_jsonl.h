// Files of questions and problems, a line of JSON each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::cli {

// MMLU's shape: {"question": "...", "choices": ["...", ...], "answer": 2 or "C"}.
struct ChoiceQuestion {
  int64_t line = 0;
  std::string question;
  std::vector<std::string> choices;  // 2 to 26
  size_t answer = 0;
};

// HumanEval's shape: {"task_id": "...", "prompt": "...", "entry_point": "...", "test": "..."}.
struct CodeProblem {
  int64_t line = 0;
  std::string task_id, prompt, entry_point, test;
};

// One line; the error says what is wrong with it.
Result<ChoiceQuestion> parse_choice_question(const std::string& line);
Result<CodeProblem> parse_code_problem(const std::string& line);

// All lines that are not blank, at most `limit` good ones (0: no limit). A line that is wrong goes to
// `on_bad` and is skipped. kIo or kInvalidArgument, naming the flag, for a file that can't be read or has no
// good line.
using OnBadLine = std::function<void(int64_t line, const std::string& what)>;
Result<std::vector<ChoiceQuestion>> read_choice_questions(const std::string& path, int64_t limit,
                                                          const OnBadLine& on_bad);
Result<std::vector<CodeProblem>> read_code_problems(const std::string& path, int64_t limit,
                                                    const OnBadLine& on_bad);

}  // namespace pagoda::cli
