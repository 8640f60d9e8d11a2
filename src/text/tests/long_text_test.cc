// Long runs of one thing (CASES B086): nothing may crash, and no text may come out changed. Times are
// printed, not judged.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "text/tests/text_fixtures.h"

namespace pagoda::text {
namespace {

std::string repeated(const std::string& unit, size_t bytes) {
  std::string out;
  out.reserve(bytes + unit.size());
  while (out.size() < bytes) out += unit;
  return out;
}

class LongText : public testing::TestWithParam<const char*> {};

TEST_P(LongText, is_encoded_without_loss) {
  constexpr size_t kBytes = 800'000;
  PAGODA_GOLDEN_TOKENIZER(tokenizer, GetParam());
  for (const char* unit : {"A", "us", " ", "\n", ".", "中", "1", "a1", "<", "<|", "\t \n", "e\u0301", "'s",
                           "()", "x ", "<|im_end|>"}) {
    const std::string input = repeated(unit, kBytes);
    const auto start = std::chrono::steady_clock::now();
    auto ids = tokenizer.encode(input, {.add_special_tokens = false});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    auto output = tokenizer.decode(*ids, false);
    ASSERT_TRUE(output.has_value());
    // Two tokenizers change some of the texts by design: bpe_qwen composes the accent (NFC), spm_meta takes a
    // space at the beginning for the one that it puts there itself.
    const std::string name = GetParam();
    const bool is_changed =
        (name == "bpe_qwen" && std::string(unit) == "e\u0301") || (name == "spm_meta" && unit[0] == ' ');
    if (!is_changed) {
      EXPECT_TRUE(*output == input) << GetParam() << " changes runs of '" << unit << "'";
    }
    std::printf("%-10s %zu bytes of '%s': %zu tokens, %.0f ms\n", GetParam(), input.size(), unit, ids->size(),
                1e3 * seconds.count());
  }
}

TEST_P(LongText, of_more_whitespace_than_the_splitting_can_bear_is_refused) {
  PAGODA_GOLDEN_TOKENIZER(tokenizer, GetParam());
  auto ids = tokenizer.encode(repeated(" ", 1'000'000) + "x", {});
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(ids.error().message.find("900000"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, LongText,
                         testing::Values("bpe_gpt2", "bpe_l3", "bpe_qwen", "spm_meta", "spm_norm", "smollm2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace pagoda::text
