// Choices with a constraint: the tokens are those of one that runs alone, whatever the engine does meanwhile.

#include <gtest/gtest.h>

#include "engine/tests/engine_fixture.h"

namespace pagoda::engine {
namespace {

// What may come next depends on every token before it, so that a token too many or too few shows.
class FakeConstraint final : public sampling::TokenConstraint {
 public:
  explicit FakeConstraint(int64_t length) : left_(length) {}

  Result<void> fill_mask(std::span<uint32_t> words) override {
    if (left_ == fails_at) return make_error(ErrorKind::kInvalidArgument, "the constraint is too complex");
    std::ranges::fill(words, 0);
    for (int32_t id = 0; id < kTestVocab; ++id) {
      if (allows(id)) words[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
    }
    return {};
  }
  Result<bool> accept(TokenId token) override {
    EXPECT_TRUE(left_ > 0 && allows(token.value)) << token.value << " with " << left_ << " left";
    state_ = state_ * 31 + static_cast<uint64_t>(token.value) + 1;
    return --left_ == 0;
  }

  int64_t fails_at = -1;

 private:
  // Three of four; the repeating text's next token is mostly among them.
  bool allows(int32_t id) const { return (state_ + static_cast<uint64_t>(id)) % 4 != 0; }
  int64_t left_;
  uint64_t state_ = 7;
};

EngineRequest constrained(EngineRequest request, int64_t length) {
  request.constraints.clear();
  for (int i = 0; i < request.n; ++i) request.constraints.push_back(std::make_shared<FakeConstraint>(length));
  return request;
}

EngineOptions options_with_drafts(int num_blocks) {
  EngineOptions options = test_options(num_blocks);
  options.speculation = {.num_tokens = 16, .min_match = 3, .max_match = 8};
  return options;
}

EngineRequest request_number(EngineHarness& harness, int i) {
  EngineRequest r = harness.request(random_prompt(20 + i, static_cast<uint32_t>(i)), 150);
  r.n = i % 4 == 3 ? 3 : 1;
  r.sampling.temperature = i % 2 == 0 ? 0.0f : 0.7f;
  r.sampling.seed = static_cast<uint64_t>(i);
  r.sampling.num_logprobs = 2;
  return r;
}

TEST(EngineConstraint, TokensAreThoseOfAnUndisturbedRunWithDraftsAndPreemption) {
  for (const int num_blocks : {500, 24}) {
    SCOPED_TRACE(num_blocks);
    const EngineOptions options = options_with_drafts(num_blocks);
    EngineHarness harness(options, {}, /*num_threads=*/2, FakeText::kRepeating);
    std::vector<EngineRequest> requests;
    for (int i = 0; i < 8; ++i) {
      requests.push_back(request_number(harness, i));
      harness.submit(i % 3 == 2 ? requests.back() : constrained(requests.back(), 100));
      if (i < 4) harness.run();  // alone, so that there are drafts
    }
    harness.run();
    for (int i = 0; i < 8; ++i) {
      const EngineRequest& r = requests[static_cast<size_t>(i)];
      const Received& received = harness.received(r.id);
      expect_reference(i % 3 == 2 ? r : constrained(r, 100), received, options, FakeText::kRepeating);
      if (i % 3 == 2) continue;
      EXPECT_EQ(received.choices[0].finish, FinishReason::kStop);
      EXPECT_EQ(received.choices[0].tokens.size(), 100u);
    }
    EXPECT_GT(harness.engine().stats().accepted_tokens, 50u);
    EXPECT_EQ(harness.engine().stats().preemptions > 0, num_blocks == 24);
  }
}

TEST(EngineConstraint, MaxTokensMayComeFirstAndCompletionOutranksIt) {
  const EngineOptions options = test_options(100);
  for (const int64_t length : {9, 10, 11}) {
    EngineHarness harness(options);
    const EngineRequest r = harness.request(random_prompt(20, 1), 10);
    const Received& received = harness.submit(constrained(r, length));
    harness.run();
    EXPECT_EQ(received.choices[0].tokens.size(), static_cast<size_t>(std::min<int64_t>(length, 10)));
    EXPECT_EQ(received.choices[0].finish, length > 10 ? FinishReason::kLength : FinishReason::kStop);
  }
}

TEST(EngineConstraint, AStopTokenEndsTheChoiceWithThatToken) {
  EngineHarness harness(test_options(100));
  EngineRequest r = harness.request(random_prompt(20, 1), 50);
  for (int32_t id = 0; id < 20; ++id) r.sampling.stop_token_ids.push_back({id});
  const Received& received = harness.submit(constrained(r, 40));
  harness.run();
  expect_reference(constrained(r, 40), received, test_options(100));
  EXPECT_LT(received.choices[0].tokens.back().token.value, 20);
}

TEST(EngineConstraint, AbortAndFailureEndTheirOwnRequestOnly) {
  const EngineOptions options = test_options(100);
  EngineHarness harness(options);
  EngineRequest aborted = harness.request(random_prompt(20, 1), 60);
  aborted.n = 3;
  EngineRequest broken = constrained(harness.request(random_prompt(30, 2), 60), 50);
  static_cast<FakeConstraint&>(*broken.constraints[0]).fails_at = 45;
  const EngineRequest other = harness.request(random_prompt(40, 3), 60);
  harness.submit(constrained(aborted, 50));
  harness.submit(broken);
  harness.submit(constrained(other, 50));
  harness.steps(4);
  harness.engine().abort(aborted.id);
  harness.run();
  for (const ReceivedChoice& choice : harness.received(aborted.id).choices) {
    EXPECT_EQ(choice.finish, FinishReason::kAborted);
  }
  EXPECT_EQ(harness.received(broken.id).choices[0].finish, FinishReason::kError);
  EXPECT_EQ(harness.received(broken.id).choices[0].tokens.size(), 5u);
  expect_reference(constrained(other, 50), harness.received(other.id), options);
}

}  // namespace
}  // namespace pagoda::engine
