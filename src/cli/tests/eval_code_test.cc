#include "cli/eval_code.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace pagoda::cli {
namespace {

const CodeProblem kProblem{.line = 1,
                           .task_id = "T/0",
                           .prompt = "def double(x):\n    \"\"\"Twice x.\"\"\"\n",
                           .entry_point = "double",
                           .test = "def check(candidate):\n    assert candidate(4) == 8\n"};

class EvalCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto found = PythonRunner::find(20);
    if (!found) GTEST_SKIP() << "there is no python3";
    runner_ = *found;
  }
  ProgramEnd run(const std::string& completion) const {
    const auto end = runner_.run(code_program(kProblem, completion), [] { return false; });
    EXPECT_TRUE(end);
    return end ? *end : ProgramEnd::kFailed;
  }
  PythonRunner runner_;
};

TEST_F(EvalCodeTest, RightAndWrongPrograms) {
  EXPECT_EQ(run("    return x * 2\n"), ProgramEnd::kPassed);
  EXPECT_EQ(run("    return x + 2\n"), ProgramEnd::kFailed);
  EXPECT_EQ(run("    return x *"), ProgramEnd::kFailed);
}

TEST_F(EvalCodeTest, EndingEarlyIsNoPass) {
  EXPECT_EQ(run("    import sys; sys.exit(0)\n"), ProgramEnd::kFailed);
  EXPECT_EQ(run("    import os; os._exit(0)\n"), ProgramEnd::kFailed);
  EXPECT_EQ(run("    import os; os.kill(os.getpid(), 9)\n"), ProgramEnd::kFailed);
}

TEST_F(EvalCodeTest, TimeAndMemoryAndFilesAreLimited) {
  EXPECT_EQ(run("    return len(bytearray(1 << 40))\n"), ProgramEnd::kFailed);
  EXPECT_EQ(run("    open('f', 'wb').write(bytes(64 << 20)); return 8\n"), ProgramEnd::kFailed);
  EXPECT_EQ(run("    open('f', 'wb').write(bytes(1 << 20)); return 8\n"), ProgramEnd::kPassed);
  runner_.timeout_s = 1;
  EXPECT_EQ(run("    while True: pass\n"), ProgramEnd::kTimedOut);
  EXPECT_EQ(run("    import time; time.sleep(600)\n"), ProgramEnd::kTimedOut);
}

TEST_F(EvalCodeTest, ASignalEndsTheWait) {
  const auto end = runner_.run("import time\ntime.sleep(600)\n", [] { return true; });
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace pagoda::cli
