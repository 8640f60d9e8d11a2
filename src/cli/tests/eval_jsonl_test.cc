#include "cli/eval_jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace pagoda::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/eval_jsonl_test_" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(EvalJsonlTest, AnswersAreIndicesOrLetters) {
  for (const char* answer : {"2", "\"C\"", "\"c\"", "\"2\""}) {
    const auto question = parse_choice_question(
        std::string(R"({"question": "q?", "choices": ["a", "b", "c"], "subject": "x", "answer": )") + answer +
        "}");
    ASSERT_TRUE(question) << question.error().message;
    EXPECT_EQ(question->question, "q?");
    EXPECT_THAT(question->choices, ElementsAre("a", "b", "c"));
    EXPECT_EQ(question->answer, 2u);
  }
}

TEST(EvalJsonlTest, WrongQuestionsSayWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"{", "not JSON"},
      {"[1]", "not a JSON object"},
      {R"({"choices": ["a", "b"], "answer": 0})", "'question'"},
      {R"({"question": 7, "choices": ["a", "b"], "answer": 0})", "'question' is not a string"},
      {R"({"question": "q", "answer": 0})", "'choices'"},
      {R"({"question": "q", "choices": "ab", "answer": 0})", "not an array"},
      {R"({"question": "q", "choices": ["a"], "answer": 0})", "1 choices"},
      {R"({"question": "q", "choices": ["a", 2], "answer": 0})", "a choice"},
      {R"({"question": "q", "choices": ["a", ""], "answer": 0})", "empty"},
      {R"({"question": "q", "choices": ["a", "b"]})", "'answer'"},
      {R"({"question": "q", "choices": ["a", "b"], "answer": 2})", "2 choices"},
      {R"({"question": "q", "choices": ["a", "b"], "answer": -1})", "2 choices"},
      {R"({"question": "q", "choices": ["a", "b"], "answer": "C"})", "2 choices"},
      {R"({"question": "q", "choices": ["a", "b"], "answer": "yes"})", "neither"},
      {R"({"question": "q", "choices": ["a", "b"], "answer": null})", "neither"},
  };
  for (const auto& [line, what] : lines) {
    const auto question = parse_choice_question(line);
    ASSERT_FALSE(question) << line;
    EXPECT_THAT(question.error().message, HasSubstr(what)) << line;
  }
}

TEST(EvalJsonlTest, WrongLinesAreNamedAndSkipped) {
  const std::string good = R"({"question": "q", "choices": ["a", "b"], "answer": 1})";
  const std::string path = write_file("mixed", good + "\nnonsense\n\n \t\r\n" + good + "\n{}\n" + good);
  std::vector<int64_t> bad;
  const auto remember = [&](int64_t line, const std::string&) { bad.push_back(line); };
  const auto questions = read_choice_questions(path, 0, remember);
  ASSERT_TRUE(questions);
  ASSERT_EQ(questions->size(), 3u);
  EXPECT_EQ(questions->back().line, 7);
  EXPECT_THAT(bad, ElementsAre(2, 6));
  const auto limited = read_choice_questions(path, 2, remember);
  ASSERT_TRUE(limited);
  EXPECT_EQ(limited->size(), 2u);
}

TEST(EvalJsonlTest, FilesWithoutAGoodLineAreErrors) {
  const auto ignore = [](int64_t, const std::string&) {};
  const std::vector<std::pair<std::string, std::string>> files = {
      {write_file("empty", ""), "empty"},
      {write_file("bad", "x\ny\n"), "no line of it"},
      {write_file("binary", std::string("\x00\xff\n\x01", 4)), "no line of it"},
      {testing::TempDir() + "/eval_jsonl_test_missing", "No such file"},
      {testing::TempDir(), "directory"},
  };
  for (const auto& [path, what] : files) {
    const auto questions = read_choice_questions(path, 0, ignore);
    ASSERT_FALSE(questions) << path;
    EXPECT_THAT(questions.error().message, HasSubstr(what));
    EXPECT_THAT(questions.error().message, HasSubstr("--multiple-choice"));
    EXPECT_FALSE(read_code_problems(path, 0, ignore));
  }
}

TEST(EvalJsonlTest, Problems) {
  const auto problem = parse_code_problem(
      R"({"task_id": "T/1", "prompt": "def f():\n", "entry_point": "f", "test": "def check(c): pass"})");
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->task_id, "T/1");
  EXPECT_EQ(problem->prompt, "def f():\n");
  EXPECT_FALSE(parse_code_problem(R"({"task_id": "T/1", "prompt": "x", "entry_point": "f"})"));
  EXPECT_FALSE(parse_code_problem("7"));
}

}  // namespace
}  // namespace pagoda::cli
