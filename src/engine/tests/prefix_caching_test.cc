#include <gtest/gtest.h>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

std::vector<TokenId> concat(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCachingTest : public ::testing::Test {
 protected:
  const Received& run(const EngineRequest& r) {
    const Received& got = harness_.submit(r);
    harness_.run();
    expect_reference(r, got, options_);
    return got;
  }

  EngineOptions options_ = test_options(100);
  EngineHarness harness_{options_};
};

TEST_F(PrefixCachingTest, ASecondRequestFindsAllFullBlocksButKeepsATokenToRun) {
  for (const auto& [length, cached] : {std::pair(40, 32), {32, 16}, {33, 32}, {16, 0}, {15, 0}, {64, 48}}) {
    const EngineRequest first = harness_.request(random_prompt(length, static_cast<uint32_t>(length)), 5);
    EngineRequest second = first;
    second.id = {1000 + first.id.value};
    EXPECT_EQ(run(first).cached_tokens, 0);
    EXPECT_EQ(run(second).cached_tokens, cached) << length;
  }
}

TEST_F(PrefixCachingTest, GeneratedTokensAreFoundByTheNextTurn) {
  const EngineRequest first = harness_.request(random_prompt(40, 1), 30);
  const Received& got = run(first);
  std::vector<TokenId> output;
  for (const auto& token : got.choices[0].tokens) output.push_back(token.token);
  const auto history = concat(first.prompt, output);
  // The last output token was never run, so 69 tokens are in the cache: 4 full blocks.
  EXPECT_EQ(run(harness_.request(concat(history, random_prompt(10, 2)), 5)).cached_tokens, 64);
  EXPECT_EQ(harness_.engine().stats().prefix_hits, 64u);
  EXPECT_EQ(harness_.engine().stats().prefix_queries, 40u + 80u);
}

// Also when their keys collide: with one bit, some of these salts and prompts have equal keys.
TEST_F(PrefixCachingTest, B121SaltsDoNotShare) {
  for (const int bits : {128, 1}) {
    options_.prefix_hash_bits = bits;
    EngineHarness harness(options_);
    EngineRequest r = harness.request(random_prompt(40, 3), 5);
    for (const int64_t expected_cached : {0, 32}) {
      for (const char* salt : {"", "A", "B", "C", "D"}) {
        ++r.id.value;
        r.cache_salt = salt;
        const Received& got = harness.submit(r);
        harness.run();
        expect_reference(r, got, options_);
        EXPECT_EQ(got.cached_tokens, expected_cached) << bits << " bits, salt " << salt;
      }
    }
  }
}

// CASES B121: 50 requests at once with one shared prefix, each like alone; all but the first reuse it.
TEST_F(PrefixCachingTest, B121FiftyAtOnceShareAPrefix) {
  options_.max_num_seqs = 50;
  options_.num_blocks = 1000;
  EngineHarness harness(options_);
  const auto prefix = random_prompt(128, 4);
  std::vector<EngineRequest> requests;
  int64_t tokens_run = 0;
  harness.model().on_forward = [&](const model::ForwardInput& input) {
    tokens_run += std::ssize(input.tokens);
  };
  for (uint32_t i = 0; i < 50; ++i) {
    requests.push_back(harness.request(concat(prefix, random_prompt(5 + static_cast<int>(i), i)), 10));
    harness.submit(requests.back());
  }
  harness.run();
  int64_t total = 0, cached = 0;
  for (const EngineRequest& r : requests) {
    const Received& got = harness.received(r.id);
    expect_reference(r, got, options_);
    cached += *got.cached_tokens;
    total += static_cast<int64_t>(r.prompt.size()) + 9;
  }
  EXPECT_EQ(cached, 49 * 128) << "the others wait a step for blocks that the first one fills";
  EXPECT_EQ(tokens_run, total - cached);
}

TEST_F(PrefixCachingTest, B121OneBitHashesGiveRightContent) {
  options_.prefix_hash_bits = 1;
  options_.num_blocks = 40;
  EngineHarness harness(options_);
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 60; ++i) {
    EngineRequest r = harness.request(concat(random_prompt(32, i % 5), random_prompt(40, i % 7)), 20);
    r.cache_salt = i % 3 == 0 ? "salt" : "";
    requests.push_back(r);
    harness.submit(r);
  }
  harness.run();
  for (const EngineRequest& r : requests) expect_reference(r, harness.received(r.id), options_);
  EXPECT_GT(harness.engine().stats().prefix_hits, 0u);
}

// CASES B033.
TEST_F(PrefixCachingTest, B033PromptLogprobsBypassTheCache) {
  EngineRequest plain = harness_.request(random_prompt(100, 5), 3);
  run(plain);
  for (const uint64_t id : {100u, 101u}) {
    EngineRequest scored = plain;
    scored.id = {id};
    scored.prompt_logprobs = 2;
    const Received& got = run(scored);
    EXPECT_EQ(got.cached_tokens, 0);
    EXPECT_TRUE(
        std::ranges::equal(*got.prompt_logprobs, reference_prompt_scores(scored, kTestVocab), equal_tokens));
  }
}

TEST_F(PrefixCachingTest, CachingCanBeOff) {
  options_.enable_prefix_caching = false;
  EngineHarness harness(options_);
  EngineRequest r = harness.request(random_prompt(40, 6), 5);
  for (const uint64_t id : {1u, 2u}) {
    r.id = {id};
    const Received& got = harness.submit(r);
    harness.run();
    EXPECT_EQ(got.cached_tokens, 0);
    EXPECT_EQ(harness.engine().stats().blocks_free, options_.num_blocks);
  }
}

TEST_F(PrefixCachingTest, APreemptedRequestReportsTheTokensOfItsFirstRun) {
  options_.num_blocks = 8;
  EngineHarness harness(options_);
  const EngineRequest a = harness.request(random_prompt(20, 7), 100),
                      b = harness.request(random_prompt(20, 8), 100);
  harness.submit(a);
  harness.submit(b);
  harness.run();
  EXPECT_GT(harness.engine().stats().preemptions, 0u);
  EXPECT_EQ(harness.received(b.id).cached_tokens, 0);
  EXPECT_EQ(harness.engine().stats().prefix_queries, 40u);
}

}  // namespace
}  // namespace pagoda::engine
