#include "service/grammar_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "text/tests/grammar_walk.h"

namespace pagoda::service {
namespace {

using text::GrammarKind;

class GrammarCacheTest : public testing::Test {
 protected:
  // How many grammars had to be compiled to have one more of `text`.
  int compiled(GrammarCache& cache, const std::string& text, GrammarKind kind = GrammarKind::kRegex,
               int count = 1) {
    int compilations = 0;
    const auto compile = [&] {
      ++compilations;
      return text::compiler()->compile(kind, text);
    };
    EXPECT_EQ(cache.matchers(kind, text, count, compile).value().size(), static_cast<size_t>(count));
    return compilations;
  }
};

TEST_F(GrammarCacheTest, AGrammarIsCompiledOnceAndBeginsAnewForEachOutput) {
  GrammarCache cache(4, 1000);
  for (int round = 0; round < 3; ++round) {
    const auto compile = [&]() -> Result<text::GrammarMatcher> {
      EXPECT_EQ(round, 0);
      return text::compiler()->compile(GrammarKind::kChoice, R"(["ab","cd"])");
    };
    auto matchers = cache.matchers(GrammarKind::kChoice, R"(["ab","cd"])", 2, compile).value();
    EXPECT_TRUE(text::walk(matchers[0], "ab").complete);
    EXPECT_TRUE(text::walk(matchers[1], "cd").complete);
  }
}

TEST_F(GrammarCacheTest, TheSameTextOfAnotherKindIsAnotherGrammar) {
  GrammarCache cache(4, 1000);
  EXPECT_EQ(compiled(cache, R"(["a"])", GrammarKind::kRegex), 1);
  EXPECT_EQ(compiled(cache, R"(["a"])", GrammarKind::kChoice), 1);
  EXPECT_EQ(compiled(cache, R"(["a"])", GrammarKind::kRegex), 0);
}

TEST_F(GrammarCacheTest, TheLeastRecentlyUsedGoFirst) {
  GrammarCache cache(2, 1000);
  EXPECT_EQ(compiled(cache, "a"), 1);
  EXPECT_EQ(compiled(cache, "b"), 1);
  EXPECT_EQ(compiled(cache, "a"), 0);
  EXPECT_EQ(compiled(cache, "c"), 1);  // drops b
  EXPECT_EQ(compiled(cache, "a"), 0);
  EXPECT_EQ(compiled(cache, "b"), 1);
}

TEST_F(GrammarCacheTest, TheirTextsAreBounded) {
  GrammarCache cache(100, 10);
  EXPECT_EQ(compiled(cache, "aaaaaa"), 1);
  EXPECT_EQ(compiled(cache, "bbbbbb"), 1);
  EXPECT_EQ(compiled(cache, "aaaaaa"), 1);
  EXPECT_EQ(compiled(cache, "ccccccccccccccc"), 1);  // larger than all that may be kept: used all the same
  EXPECT_EQ(compiled(cache, "ccccccccccccccc"), 1);
}

TEST_F(GrammarCacheTest, FailuresAreToldAndNotKept) {
  GrammarCache cache(4, 1000);
  for (int round = 0; round < 2; ++round) {
    int compilations = 0;
    const auto compile = [&] {
      ++compilations;
      return text::compiler()->compile(GrammarKind::kRegex, "(");
    };
    EXPECT_FALSE(cache.matchers(GrammarKind::kRegex, "(", 1, compile).has_value());
    EXPECT_EQ(compilations, 1);
  }
}

TEST_F(GrammarCacheTest, ThreadsMayShareIt) {
  GrammarCache cache(3, 1000);
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      const std::string text(static_cast<size_t>(1 + i % 5), 'a');
      auto matchers = cache.matchers(GrammarKind::kRegex, text, 2,
                                     [&] { return text::compiler()->compile(GrammarKind::kRegex, text); });
      EXPECT_TRUE(text::walk(matchers.value()[1], text).complete);
    }
  };
  std::thread other(work), third(work);
  work();
  other.join();
  third.join();
}

}  // namespace
}  // namespace pagoda::service
