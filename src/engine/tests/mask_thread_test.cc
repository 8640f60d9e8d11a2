#include "engine/mask_thread.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace pagoda::engine {
namespace {

constexpr int64_t kVocab = 70;

class CountingConstraint final : public sampling::TokenConstraint {
 public:
  Result<void> fill_mask(std::span<uint32_t> words) override {
    ++fills;
    if (throws) throw std::runtime_error("too deep");
    if (fails) return make_error(ErrorKind::kInvalidArgument, "too complex");
    std::ranges::fill(words, static_cast<uint32_t>(fills));
    return {};
  }
  Result<bool> accept(TokenId) override { return false; }
  int fills = 0;
  bool fails = false, throws = false;
};

// One request with a constraint for each of its choices, and the tasks of a step.
struct Step {
  explicit Step(int choices) {
    request.spec.n = choices;
    sequence.request = &request;
    for (int choice = 0; choice < choices; ++choice) {
      constraints.push_back(std::make_shared<CountingConstraint>());
      request.spec.constraints.push_back(constraints.back());
      SampleTask task;
      task.sequence = &sequence;
      task.choice = choice;
      tasks.push_back(task);
    }
  }
  Request request;
  Sequence sequence;
  std::vector<std::shared_ptr<CountingConstraint>> constraints;
  std::vector<SampleTask> tasks;
};

TEST(MaskThread, EveryMaskIsFilledOnceWhoeverIsFaster) {
  MaskThread masks(kVocab);
  Step step(8);
  for (int round = 1; round <= 300; ++round) {
    masks.begin(step.tasks);
    if (round % 3 == 0) std::this_thread::yield();
    std::thread other([&] {
      for (size_t i = 1; i < 8; i += 2) EXPECT_EQ(masks.take(i).value()[0], static_cast<uint32_t>(round));
    });
    for (size_t i = 0; i < 8; i += 2) {
      const auto mask = masks.take(i).value();
      EXPECT_EQ(mask.size(), 3u);
      EXPECT_EQ(mask[2], static_cast<uint32_t>(round));
    }
    other.join();
  }
  for (const auto& constraint : step.constraints) EXPECT_EQ(constraint->fills, 300);
}

TEST(MaskThread, OnlyFirstRowsOfConstrainedChoicesAreItsWork) {
  MaskThread masks(kVocab);
  Step step(2), free(1);
  free.request.spec.constraints.clear();
  SampleTask draft = step.tasks[0];
  draft.drafts = 1;
  const std::vector<SampleTask> tasks = {free.tasks[0], step.tasks[0], draft, step.tasks[1]};
  masks.begin(tasks);
  EXPECT_EQ(masks.take(1).value()[0], 1u);
  EXPECT_EQ(masks.take(3).value()[0], 1u);
  masks.begin(free.tasks);
  EXPECT_EQ(step.constraints[0]->fills, 1);
}

TEST(MaskThread, FailuresReachTheirOwnTaker) {
  MaskThread masks(kVocab);
  Step step(3);
  step.constraints[0]->fails = true;
  step.constraints[1]->throws = true;
  for (int round = 0; round < 50; ++round) {
    masks.begin(step.tasks);
    EXPECT_EQ(masks.take(0).error().message, "too complex");
    EXPECT_EQ(masks.take(1).error().message, "too deep");
    EXPECT_TRUE(masks.take(2).has_value());
  }
}

TEST(MaskThread, EndsWithMasksThatNobodyTook) {
  for (int round = 0; round < 50; ++round) {
    Step step(4);
    MaskThread masks(kVocab);
    masks.begin(step.tasks);
  }
}

}  // namespace
}  // namespace pagoda::engine
