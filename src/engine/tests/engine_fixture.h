// An engine over the fake model, stepped by hand, and what its requests received.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "engine/tests/fake_model.h"
#include "engine/tests/reference.h"

namespace pagoda::engine {

inline constexpr int64_t kTestVocab = 40;

struct ReceivedChoice {
  std::vector<sampling::SampledToken> tokens;
  FinishReason finish = FinishReason::kNone;

  std::vector<int32_t> ids() const {
    std::vector<int32_t> out;
    for (const auto& token : tokens) out.push_back(token.token.value);
    return out;
  }
};

struct Received {
  std::vector<ReceivedChoice> choices;
  std::optional<int64_t> cached_tokens;  // of the first event
  std::shared_ptr<const std::vector<sampling::SampledToken>> prompt_logprobs;
  int prompt_logprobs_sent = 0;
  int ended = 0;

  bool done() const { return ended == static_cast<int>(choices.size()); }

  void on_events(RequestId id, std::span<const EngineEvent> events) {
    ASSERT_FALSE(events.empty());
    for (const EngineEvent& event : events) {
      ASSERT_EQ(event.request, id);
      if (!cached_tokens) cached_tokens = event.cached_tokens;
      if (event.prompt_logprobs) {
        prompt_logprobs = event.prompt_logprobs;
        ++prompt_logprobs_sent;
      }
      ReceivedChoice& choice = choices.at(static_cast<size_t>(event.choice));
      ASSERT_EQ(choice.finish, FinishReason::kNone) << "an event after the last one";
      if (event.has_token) choice.tokens.push_back(event.token);
      choice.finish = event.finish;
      if (event.finish != FinishReason::kNone) ++ended;
    }
  }
};

inline std::vector<TokenId> random_prompt(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back({static_cast<int32_t>(random() % kTestVocab)});
  return tokens;
}

inline EngineOptions test_options(int num_blocks) {
  EngineOptions options;
  options.num_blocks = num_blocks;
  options.max_model_len = 1024;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  return options;
}

class EngineHarness {
 public:
  explicit EngineHarness(const EngineOptions& options, EngineObserver observer = {}, int num_threads = 1,
                         FakeText text = FakeText::kRandom)
      : model_(kTestVocab, text),
        pool_(num_threads),
        engine_(model_, KvStorage(model_.kv_shape(), options.num_blocks), options, pool_, clock_,
                std::move(observer)) {}

  // A greedy request; change what is needed and submit it.
  EngineRequest request(std::vector<TokenId> prompt, int64_t max_tokens) {
    EngineRequest r;
    r.id = {++last_id_};
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0.0f;
    return r;
  }

  Result<void> try_submit(EngineRequest r) {
    Received& received = received_[r.id.value];
    received.choices.resize(static_cast<size_t>(r.n));
    if (!r.sink)
      r.sink = [&received, id = r.id](std::span<const EngineEvent> events) {
        received.on_events(id, events);
      };
    return engine_.submit(std::move(r));
  }
  Received& submit(const EngineRequest& r) {
    const auto result = try_submit(r);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return received_[r.id.value];
  }

  bool step() {
    const bool did = engine_.step();
    engine_.check_integrity();
    return did;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }
  // Steps until nothing is left; the number of steps that took.
  int run(int limit = 100000) {
    int count = 0;
    while (step()) {
      if (++count > limit) {
        ADD_FAILURE() << "still not done after " << limit << " steps";
        break;
      }
    }
    EXPECT_TRUE(engine_.idle());
    EXPECT_EQ(engine_.stats().blocks_used, 0);
    EXPECT_EQ(engine_.stats().running + engine_.stats().waiting, 0);
    return count;
  }

  FakeModel& model() { return model_; }
  ManualClock& clock() { return clock_; }
  Engine& engine() { return engine_; }
  Received& received(RequestId id) { return received_[id.value]; }

 private:
  FakeModel model_;
  ManualClock clock_;
  ComputePool pool_;
  std::map<uint64_t, Received> received_;
  Engine engine_;
  uint64_t last_id_ = 0;
};

inline void expect_reference(const EngineRequest& request, const Received& received,
                             const EngineOptions& options, FakeText text = FakeText::kRandom) {
  ASSERT_EQ(received.choices.size(), static_cast<size_t>(request.n));
  for (int choice = 0; choice < request.n; ++choice) {
    SCOPED_TRACE(::testing::Message() << "request " << request.id.value << ", choice " << choice);
    const ReferenceOutput expected =
        reference_output(request, choice, kTestVocab, options.max_model_len, text);
    const ReceivedChoice& got = received.choices[static_cast<size_t>(choice)];
    EXPECT_EQ(got.finish, expected.finish);
    ASSERT_EQ(got.tokens.size(), expected.tokens.size());
    for (size_t i = 0; i < got.tokens.size(); ++i) {
      ASSERT_TRUE(equal_tokens(got.tokens[i], expected.tokens[i])) << "output token " << i;
    }
  }
}

}  // namespace pagoda::engine
