// Thousands of random requests against an engine with random limits. Every output is compared with the
// reference.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {

class EngineSimulator {
 public:
  explicit EngineSimulator(uint32_t seed)
      : random_(seed),
        text_(chance(50) ? FakeText::kRepeating : FakeText::kRandom),
        options_(random_options()),
        harness_(options_, {}, /*num_threads=*/2, text_) {
    arrivals_percent_ = pick(5, 80);
    background_percent_ = chance(60) ? pick(0, 80) : 0;
    harness_.model().on_forward = [this](const model::ForwardInput& input) {
      harness_.clock().advance(std::chrono::microseconds(random_() % 1000 * input.tokens.size()));
    };
    for (auto& base : bases_) base = random_prompt(pick(0, 100), static_cast<uint32_t>(random_()));
  }

  // Submits `num_requests` over time and runs until all have ended.
  void run(int num_requests) {
    int submitted = 0;
    while (submitted < num_requests || !harness_.engine().idle()) {
      for (int i = chance(arrivals_percent_) ? pick(1, 4) : 0; i > 0 && submitted < num_requests;
           --i, ++submitted)
        submit();
      if (chance(4)) abort_something();
      step();
      if (::testing::Test::HasFatalFailure() || stalled_steps_ > 1000) break;
    }
    EXPECT_LE(stalled_steps_, 1000) << "no progress";
    finish();
  }

  const EngineStats& stats() const { return stats_; }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  EngineOptions random_options() {
    EngineOptions o;
    o.num_blocks = chance(70) ? pick(4, 20) : pick(20, 80);
    o.max_model_len = chance(80) ? pick(20, o.num_blocks * kKvBlockTokens) : pick(100, 400);
    o.max_num_seqs = pick(1, 12);
    o.max_num_batched_tokens = chance(20) ? pick(1, 8) : pick(8, 100);
    o.long_prefill_token_threshold = chance(30) ? pick(1, 40) : 0;
    o.itl_target_ms = chance(30) ? pick(1, 60) : 0;
    o.enable_prefix_caching = chance(85);
    o.max_num_queued_reqs = chance(80) ? 1000 : pick(1, 4);
    o.max_num_queued_tokens = chance(80) ? 100000 : pick(50, 300);
    o.policy = chance(30) ? EngineOptions::Policy::kPriority : EngineOptions::Policy::kFcfs;
    o.prefix_hash_bits = chance(25) ? 1 : 128;
    if (chance(75)) o.speculation.num_tokens = pick(1, 16);
    o.speculation.min_match = pick(1, 4);
    o.speculation.max_match = pick(4, 8);
    o.speculation.max_rows = pick(2, 20);
    return o;
  }

  std::vector<TokenId> make_prompt() {
    std::vector<TokenId> prompt;
    if (chance(25) && !finished_texts_.empty()) {
      prompt = finished_texts_[static_cast<size_t>(pick(0, static_cast<int>(finished_texts_.size()) - 1))];
    } else {
      prompt = bases_[static_cast<size_t>(pick(0, 3))];
      if (chance(40)) prompt.resize(static_cast<size_t>(pick(0, static_cast<int>(prompt.size()))));
    }
    for (int i = chance(30) ? 0 : pick(1, 40); i > 0; --i) prompt.push_back({pick(0, kTestVocab - 1)});
    if (prompt.empty()) prompt.push_back({pick(0, kTestVocab - 1)});
    return prompt;
  }

  sampling::SamplingParams make_sampling() {
    sampling::SamplingParams p;
    p.temperature = chance(30) ? 0.0f : static_cast<float>(pick(1, 20)) / 10.0f;
    p.seed = random_();
    if (chance(30)) p.top_p = static_cast<float>(pick(1, 10)) / 10.0f;
    if (chance(30)) p.top_k = pick(1, 30);
    if (chance(30)) p.repetition_penalty = 1.3f;
    if (chance(30)) p.frequency_penalty = 0.7f;
    if (chance(30)) p.presence_penalty = -0.4f;
    if (chance(50)) p.stop_token_ids = {{pick(0, kTestVocab - 1)}, {3}};
    if (chance(30)) p.min_tokens = pick(1, 10);
    // Repeating text changes little with its history; its log-probabilities do.
    if (chance(text_ == FakeText::kRepeating ? 70 : 30)) p.num_logprobs = pick(0, 5);
    return p;
  }

  EngineRequest make_request() {
    EngineRequest r = harness_.request(make_prompt(), chance(5) ? 0 : pick(1, chance(50) ? 30 : 150));
    r.n = chance(75) ? 1 : pick(1, std::min(4, options_.max_num_seqs));
    r.sampling = make_sampling();
    if (chance(15)) r.prompt_logprobs = pick(0, 3);
    if (chance(30)) r.priority = pick(-2, 2);
    r.background = chance(background_percent_);
    if (chance(10)) r.cache_salt = "salt";
    if (chance(5)) r.deadline = harness_.clock().now() + std::chrono::milliseconds(pick(0, 100));
    return r;
  }

  void submit() {
    const EngineRequest r = make_request();
    const auto num_prompt = static_cast<int64_t>(r.prompt.size());
    const auto result = harness_.try_submit(r);
    if (result) {
      requests_.emplace(r.id.value, r);
      live_.insert(r.id.value);
      return;
    }
    const int64_t most =
        num_prompt + std::max<int64_t>(0, std::min(r.max_tokens, options_.max_model_len - num_prompt) - 1);
    switch (result.error().kind) {
      case ErrorKind::kContextLengthExceeded:
        EXPECT_GE(num_prompt + std::min<int64_t>(r.max_tokens, 1), options_.max_model_len + 1);
        break;
      case ErrorKind::kInvalidArgument:
        EXPECT_GT((most + kKvBlockTokens - 1) / kKvBlockTokens, options_.num_blocks);
        break;
      default:
        EXPECT_EQ(result.error().kind, ErrorKind::kOverloaded);
    }
  }

  void abort_something() {
    const auto id = static_cast<uint64_t>(pick(1, 1 + static_cast<int>(requests_.size())));
    if (chance(50)) {
      harness_.engine().abort({id});
    } else {
      harness_.engine().abort({id}, pick(0, 4));
    }
    may_be_cut_.insert(id);
  }

  void step() {
    harness_.clock().advance(std::chrono::milliseconds(1));
    harness_.step();
    const auto old = stats_;
    stats_ = harness_.engine().stats();
    size_t ended = 0;
    for (auto id = live_.begin(); id != live_.end();) {
      const bool done = harness_.received({*id}).done();
      if (done) {
        check(requests_.at(*id));
        ++ended;
      }
      id = done ? live_.erase(id) : std::next(id);
    }
    const bool progress = ended > 0 || stats_.generation_tokens > old.generation_tokens || live_.empty();
    stalled_steps_ = progress ? 0 : stalled_steps_ + 1;
  }

  void check(const EngineRequest& r) {
    const Received& got = harness_.received(r.id);
    for (int choice = 0; choice < r.n; ++choice) {
      SCOPED_TRACE(::testing::Message() << "request " << r.id.value << ", choice " << choice);
      check_choice(r, got.choices[static_cast<size_t>(choice)], choice);
    }
    const auto num_prompt = static_cast<int64_t>(r.prompt.size());
    EXPECT_EQ(*got.cached_tokens % kKvBlockTokens, 0);
    EXPECT_LT(*got.cached_tokens, num_prompt);
    const bool scored = r.prompt_logprobs != -1 && num_prompt > 1;
    EXPECT_TRUE(*got.cached_tokens == 0 || (options_.enable_prefix_caching && !scored));
    EXPECT_LE(got.prompt_logprobs_sent, 1);
    if (got.prompt_logprobs != nullptr) {
      EXPECT_TRUE(std::ranges::equal(*got.prompt_logprobs, reference_prompt_scores(r, kTestVocab, text_),
                                     equal_tokens));
    } else if (r.prompt_logprobs != -1) {
      EXPECT_TRUE(std::ranges::all_of(got.choices, [](const auto& c) { return c.tokens.empty(); }));
    }
  }

  void check_choice(const EngineRequest& r, const ReceivedChoice& got, int choice) {
    const ReferenceOutput expected = reference_output(r, choice, kTestVocab, options_.max_model_len, text_);
    const bool cut = got.finish == FinishReason::kAborted || got.finish == FinishReason::kDeadline;
    if (cut) {
      EXPECT_TRUE(got.finish == FinishReason::kAborted ? may_be_cut_.contains(r.id.value)
                                                       : r.deadline.has_value());
      EXPECT_LE(got.tokens.size(), expected.tokens.size());
    } else {
      EXPECT_EQ(got.finish, expected.finish);
      EXPECT_EQ(got.tokens.size(), expected.tokens.size());
    }
    const size_t count = std::min(got.tokens.size(), expected.tokens.size());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(equal_tokens(got.tokens[i], expected.tokens[i])) << "output token " << i << " of " << count;
    }
    if (choice == 0 && chance(20)) {
      auto text = r.prompt;
      for (const auto& token : got.tokens) text.push_back(token.token);
      if (text.size() < 150) finished_texts_.push_back(std::move(text));
    }
  }

  void finish() {
    EXPECT_TRUE(harness_.engine().idle());
    EXPECT_EQ(stats_.blocks_used, 0);
    EXPECT_EQ(stats_.blocks_free + stats_.blocks_cached, options_.num_blocks);
    EXPECT_EQ(stats_.running + stats_.waiting, 0);
    EXPECT_TRUE(harness_.engine().debug_blocks().requests.empty());
  }

  std::mt19937 random_;
  FakeText text_;
  EngineOptions options_;
  EngineHarness harness_;
  std::vector<TokenId> bases_[4];
  std::vector<std::vector<TokenId>> finished_texts_;  // prompts of later turns
  std::map<uint64_t, EngineRequest> requests_;
  std::set<uint64_t> live_, may_be_cut_;
  EngineStats stats_;
  int arrivals_percent_ = 0, background_percent_ = 0;
  int stalled_steps_ = 0;
};

// Runs the simulator on seeds [first, first + count); stops at the first seed that fails and names it.
inline EngineStats simulate_seeds(uint32_t first, uint32_t count, int requests_per_seed) {
  EngineStats sum;
  for (uint32_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "simulator seed " << seed);
    EngineSimulator simulator(seed);
    simulator.run(requests_per_seed);
    sum.preemptions += simulator.stats().preemptions;
    sum.prefix_hits += simulator.stats().prefix_hits;
    sum.generation_tokens += simulator.stats().generation_tokens;
    sum.steps += simulator.stats().steps;
    sum.rejected += simulator.stats().rejected;
    sum.draft_tokens += simulator.stats().draft_tokens;
    sum.accepted_tokens += simulator.stats().accepted_tokens;
    if (::testing::Test::HasFailure()) ADD_FAILURE() << "failing simulator seed: " << seed;
  }
  return sum;
}

}  // namespace pagoda::engine
