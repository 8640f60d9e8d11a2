#include "api/openai/output/json_scanner.h"

#include <gtest/gtest.h>

#include <string>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

using Step = JsonScanner::Step;

// What the scanner says of a text with a space behind it.
Step scan(const std::string& text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = scanner.feed(text[i]);
    if (step == Step::kDone && i + 1 < text.size()) return Step::kBroken;
    if (step != Step::kMore) return step;
  }
  const Step step = scanner.feed(' ');
  return step == Step::kDoneBefore ? Step::kDone : step;
}

TEST(JsonScannerTest, AgreesWithTheParser) {
  for (const std::string text :
       {R"({})", R"([])", R"({"a":1})",
        R"({"a": {"b": [1, 2.5e-3, -0, true, false, null]}, "c": "\u00e9\n\"x"})", R"("x")", R"(12)",
        R"(-1.5E+7)", R"(true)", R"([[[]]])", R"({"a":[{}]})", R"([ 1 , 2 ])", R"({"a" : 1 })"}) {
    ASSERT_TRUE(parse_json(text)) << text;
    EXPECT_EQ(scan(text), Step::kDone) << text;
  }
  for (const std::string text :
       {R"({"a"})",    R"({"a":})", R"({"a":1,})", R"([1,])", R"({,})",      R"([,])",   R"(01)",
        R"(1.)",       R"(-)",      R"(+1)",       R"(.5)",   R"(1e)",       R"(tru )",  R"(nulll)",
        R"({'a':1})",  R"({a:1})",  "\"a\nb\"",    R"("\x")", R"("\u12g4")", R"([1 2])", R"({"a":1 "b":2})",
        R"({"a":1]})", R"([1})",    R"([01])",     R"([1.])"}) {
    ASSERT_FALSE(parse_json(text)) << text;
    EXPECT_EQ(scan(text), Step::kBroken) << text;
  }
}

TEST(JsonScannerTest, WaitsForTheEnd) {
  for (const std::string text : {R"({"a":1)", R"(["x)", R"({)", R"([1,)"})
    EXPECT_EQ(scan(text), Step::kMore) << text;
}

TEST(JsonScannerTest, RefusesDepth) {
  JsonScanner scanner;
  Step step = Step::kMore;
  int depth = 0;
  for (; depth < 1000 && step == Step::kMore; ++depth) step = scanner.feed('[');
  EXPECT_EQ(step, Step::kBroken);
  EXPECT_LE(depth, kMaxJsonDepth + 1);
}

}  // namespace
}  // namespace pagoda::openai
