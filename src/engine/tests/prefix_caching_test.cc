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

// Sixteen requests with 1200 tokens in common and 20 of their own, in steps of 256 tokens.
class SharedPrefixTest : public ::testing::Test {
 protected:
  static constexpr int kRequests = 16, kShared = 1200, kOwn = 20;

  SharedPrefixTest() {
    options_.max_model_len = 4096;
    options_.max_num_seqs = 32;
    options_.max_num_batched_tokens = 256;
  }

  // Counts what the model runs.
  void watch(EngineHarness& harness) {
    harness.model().on_forward = [this](const model::ForwardInput& input) {
      for (const auto& s : input.sequences) prompt_tokens_run_ += s.num_tokens > 1 ? s.num_tokens : 0;
    };
  }

  EngineRequest request(EngineHarness& harness, uint32_t own_seed, int64_t max_tokens = 4) {
    return harness.request(concat(random_prompt(kShared, 100), random_prompt(kOwn, own_seed)), max_tokens);
  }
  EngineRequest submit_one(EngineHarness& harness, uint32_t own_seed) {
    const EngineRequest r = request(harness, own_seed);
    harness.submit(r);
    return r;
  }
  std::vector<EngineRequest> submit_all(EngineHarness& harness, uint32_t first_seed) {
    std::vector<EngineRequest> requests;
    for (uint32_t i = 0; i < kRequests; ++i) {
      requests.push_back(request(harness, first_seed + i));
      harness.submit(requests.back());
    }
    return requests;
  }
  static int steps_to_all_first_tokens(EngineHarness& harness, const std::vector<EngineRequest>& requests) {
    for (int count = 1;; ++count) {
      EXPECT_TRUE(harness.step());
      const bool all = std::ranges::all_of(requests, [&](const EngineRequest& r) {
        return !harness.received(r.id).choices[0].tokens.empty();
      });
      if (all || count == 100) return count;
    }
  }
  void finish(EngineHarness& harness, const std::vector<EngineRequest>& requests) {
    harness.run();
    for (const EngineRequest& r : requests) expect_reference(r, harness.received(r.id), options_);
  }

  EngineOptions options_ = test_options(400);
  int64_t prompt_tokens_run_ = 0;
};

TEST_F(SharedPrefixTest, ColdItIsComputedOnceAndWarmNotAtAll) {
  EngineHarness harness(options_);
  watch(harness);
  const auto cold = submit_all(harness, 1);
  // 1220 tokens are five steps; then fifteen times 20 are two.
  EXPECT_EQ(steps_to_all_first_tokens(harness, cold), 7);
  EXPECT_EQ(prompt_tokens_run_, kShared + kRequests * kOwn);
  finish(harness, cold);
  prompt_tokens_run_ = 0;
  const auto warm = submit_all(harness, 50);
  EXPECT_EQ(steps_to_all_first_tokens(harness, warm), 2);
  EXPECT_EQ(prompt_tokens_run_, kRequests * kOwn);
  finish(harness, warm);
  for (const EngineRequest& r : warm) EXPECT_EQ(harness.received(r.id).cached_tokens, kShared);
}

TEST_F(SharedPrefixTest, AHitTakesOneChunk) {
  EngineHarness harness(options_);
  finish(harness, {submit_one(harness, 1)});
  watch(harness);
  const EngineRequest hit = submit_one(harness, 2);
  EXPECT_EQ(steps_to_all_first_tokens(harness, {hit}), 1);
  EXPECT_EQ(prompt_tokens_run_, kOwn);
  finish(harness, {hit});
}

// Whoever comes while the first one is at its first chunk, or anywhere in the prefix, waits and shares.
TEST_F(SharedPrefixTest, LateComersShareToo) {
  EngineHarness harness(options_);
  watch(harness);
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 5; ++i) {
    requests.push_back(request(harness, i));
    harness.submit(requests.back());
    harness.step();
  }
  finish(harness, requests);
  EXPECT_EQ(prompt_tokens_run_, kShared + 5 * kOwn);
}

// Steps so small that a chunk ends inside a block, beside sequences that decode.
TEST_F(SharedPrefixTest, ChunksSmallerThanABlockAreSharedToo) {
  options_.max_num_batched_tokens = 13;
  EngineHarness harness(options_);
  const EngineRequest stream = harness.request(random_prompt(5, 99), 300);
  harness.submit(stream);
  harness.step();
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(request(harness, i));
    harness.submit(requests.back());
  }
  harness.run();
  for (const EngineRequest& r : requests) {
    EXPECT_EQ(harness.received(r.id).cached_tokens, r.id == requests[0].id ? 0 : kShared);
    expect_reference(r, harness.received(r.id), options_);
  }
}

TEST_F(SharedPrefixTest, WhoWaitsForAnAbortedPromptGoesOnFromWhereItCame) {
  EngineHarness harness(options_);
  watch(harness);
  const auto requests = submit_all(harness, 1);
  harness.steps(2);
  harness.engine().abort(requests[0].id);
  harness.run();
  EXPECT_EQ(prompt_tokens_run_, kShared + (kRequests - 1) * kOwn) << "512 tokens of the aborted one are used";
  for (size_t i = 1; i < requests.size(); ++i) {
    expect_reference(requests[i], harness.received(requests[i].id), options_);
  }
}

// However many wait for a prefix, a request without it passes them.
TEST_F(SharedPrefixTest, ManyThatWaitHoldUpNobodyElse) {
  options_.max_num_seqs = 128;
  options_.num_blocks = 1000;
  EngineHarness harness(options_);
  std::vector<EngineRequest> requests;
  for (uint32_t i = 0; i < 100; ++i) {
    requests.push_back(request(harness, i, 1));
    harness.submit(requests.back());
  }
  harness.step();
  const EngineRequest other = harness.request(random_prompt(10, 77), 1);
  const Received& got = harness.submit(other);
  harness.steps(2);
  EXPECT_TRUE(got.done());
  requests.push_back(other);
  finish(harness, requests);
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
