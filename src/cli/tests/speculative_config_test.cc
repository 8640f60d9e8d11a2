#include "cli/speculative_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pagoda::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SpeculativeConfigTest, TheShortWords) {
  const auto off = parse_speculative_config("off");
  ASSERT_TRUE(off);
  EXPECT_EQ(off->num_tokens, 0);
  const auto on = parse_speculative_config("ngram");
  ASSERT_TRUE(on);
  EXPECT_EQ(on->num_tokens, 16);
  EXPECT_EQ(on->min_match, 6);
  EXPECT_EQ(on->max_match, 32);
}

TEST(SpeculativeConfigTest, VllmsJson) {
  const auto all = parse_speculative_config(
      R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 2, "prompt_lookup_max": 4})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->num_tokens, 5);
  EXPECT_EQ(all->min_match, 2);
  EXPECT_EQ(all->max_match, 4);
  const auto bare = parse_speculative_config(R"({"method":"ngram","prompt_lookup_min":null})");
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->num_tokens, 16);
  EXPECT_EQ(bare->min_match, 6);
}

TEST(SpeculativeConfigTest, TheDefaultOfOneBoundFollowsTheOther) {
  const auto low = parse_speculative_config(R"({"method":"ngram","prompt_lookup_max":3})");
  ASSERT_TRUE(low);
  EXPECT_EQ(low->min_match, 3);
  EXPECT_EQ(low->max_match, 3);
  const auto high = parse_speculative_config(R"({"method":"ngram","prompt_lookup_min":100})");
  ASSERT_TRUE(high);
  EXPECT_EQ(high->min_match, 100);
  EXPECT_EQ(high->max_match, 100);
}

struct Refusal {
  const char *text, *key, *value, *limit;
};

TEST(SpeculativeConfigTest, ErrorsNameKeyValueAndLimits) {
  for (const Refusal& r : {
           Refusal{R"({"method":"eagle"})", "method", "\"eagle\"", "\"ngram\""},
           Refusal{R"({"method":7})", "method", "7", "\"ngram\""},
           Refusal{R"({})", "method", "missing", "\"ngram\""},
           Refusal{R"({"method":"ngram","model":"x"})", "\"model\"", "\"x\"", "prompt_lookup_max"},
           Refusal{R"({"method":"ngram","num_speculative_tokens":0})", "num_speculative_tokens", "0",
                   "1 to 16"},
           Refusal{R"({"method":"ngram","num_speculative_tokens":17})", "num_speculative_tokens", "17",
                   "1 to 16"},
           Refusal{R"({"method":"ngram","num_speculative_tokens":18446744073709551615})",
                   "num_speculative_tokens", "18446744073709551615", "1 to 16"},
           Refusal{R"({"method":"ngram","num_speculative_tokens":4.0})", "num_speculative_tokens", "4.0",
                   "integer"},
           Refusal{R"({"method":"ngram","num_speculative_tokens":"4"})", "num_speculative_tokens", "\"4\"",
                   "integer"},
           Refusal{R"({"method":"ngram","prompt_lookup_min":-1})", "prompt_lookup_min", "-1", "1 to 256"},
           Refusal{R"({"method":"ngram","prompt_lookup_min":8,"prompt_lookup_max":7})", "prompt_lookup_max",
                   "7", "8 to 256"},
           Refusal{"draft", "ngram", "\"draft\"", "off"},
           Refusal{"", "ngram", "\"\"", "off"},
           Refusal{"{\"method\":", "JSON", "method", "off"},
           Refusal{"[1]", "JSON", "[1]", "off"},
       }) {
    const auto refused = parse_speculative_config(r.text);
    ASSERT_FALSE(refused) << r.text;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("--speculative-config"), HasSubstr(r.key),
                                               HasSubstr(r.value), HasSubstr(r.limit)));
    EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
  }
}

TEST(SpeculativeConfigTest, AnEndlessValueIsCut) {
  const auto refused = parse_speculative_config(std::string(10000, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_LT(refused.error().message.size(), 300u);
}

}  // namespace
}  // namespace pagoda::cli
