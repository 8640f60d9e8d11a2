#include "api/openai/output/python_literal.h"

#include <gtest/gtest.h>

namespace pagoda::openai {
namespace {

TEST(PythonLiteralTest, ReadsCalls) {
  PythonCall call;
  const std::string text = R"(f(a=1, b=-2.5, c="x\n\"é\u00e9\ud83d\ude00", d='it', )"
                           R"(e=[1, (2, 3)], g={"k": None, 'l': True}, h=false,))"
                           " rest";
  ASSERT_EQ(read_python_call(text, &call), PythonResult::kCall);
  EXPECT_EQ(call.name, "f");
  EXPECT_EQ(text.substr(call.size), " rest");
  EXPECT_EQ(dump_json(call.arguments), R"({"a":1,"b":-2.5,"c":"x\n\"éé😀","d":"it",)"
                                       R"("e":[1,[2,3]],"g":{"k":null,"l":true},"h":false})");
  ASSERT_EQ(read_python_call("a.b()", &call), PythonResult::kCall);
  EXPECT_EQ(call.name, "a.b");
  EXPECT_EQ(dump_json(call.arguments), "{}");
}

TEST(PythonLiteralTest, RefusesWhatIsNoCall) {
  PythonCall call;
  for (const char* text : {"1]", "f[0]", "f(1)", "f(a=b)", "f(a=1 b=2)", "f(a=1, a=2)", "f(a=g())", "f(=1)",
                           "f(a={1: 2})", "f(a=01)", "f(a=\"\\uZZZZ\")", " (", "f(a=1;)"}) {
    EXPECT_EQ(read_python_call(text, &call), PythonResult::kNoCall) << text;
  }
  EXPECT_EQ(read_python_call("f(a=" + std::string(10000, '[') + "]", &call), PythonResult::kNoCall);
}

TEST(PythonLiteralTest, AsksForMore) {
  PythonCall call;
  const std::string text = R"(f(a=1, b="x)\"", c=[1, {"k": 2}]))";
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(read_python_call(text.substr(0, size), &call), PythonResult::kIncomplete) << size;
  }
  EXPECT_EQ(read_python_call(text, &call), PythonResult::kCall);
}

}  // namespace
}  // namespace pagoda::openai
