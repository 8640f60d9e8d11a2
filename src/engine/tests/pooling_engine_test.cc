#include "engine/pooling_engine.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace pagoda::engine {
namespace {

// The vector of a sequence is (its first token, its length, 3). Keeps what each batch held.
class FakeEmbedder final : public model::Embedder {
 public:
  int64_t width() const override { return 3; }
  int64_t max_tokens() const override { return 10; }
  int64_t batch_tokens() const override { return 12; }
  int64_t batch_sequences() const override { return 3; }
  void embed(std::span<const model::EmbedTask> batch) noexcept override {
    if (gate.valid()) gate.wait();
    batches.emplace_back();
    for (const model::EmbedTask& task : batch) {
      batches.back().push_back(task.tokens.front().value);
      task.vector[0] = static_cast<float>(task.tokens.front().value);
      task.vector[1] = static_cast<float>(task.tokens.size());
      task.vector[2] = 3;
    }
  }
  std::shared_future<void> gate;  // every batch waits for it
  std::vector<std::vector<int>> batches;
};

std::vector<TokenId> sequence(int first, size_t length) {
  return std::vector<TokenId>(length, TokenId{first});
}

class PoolingEngineTest : public ::testing::Test {
 protected:
  // Submits and gives the place where the result will be.
  std::future<Result<Vectors>> submit(std::vector<std::vector<TokenId>> sequences, int64_t dimensions = 0,
                                      bool background = false) {
    auto promise = std::make_shared<std::promise<Result<Vectors>>>();
    auto future = promise->get_future();
    PoolingRequest request;
    request.sequences = std::move(sequences);
    request.dimensions = dimensions;
    request.background = background;
    request.done = [promise](Result<Vectors> result) { promise->set_value(std::move(result)); };
    const auto id = engine_.submit(std::move(request));
    if (id) {
      last_id_ = *id;
    } else {
      promise->set_value(id.error());
    }
    return future;
  }
  static ErrorKind error_of(std::future<Result<Vectors>>& future) {
    const auto result = future.get();
    EXPECT_FALSE(result);
    return result ? ErrorKind::kInternal : result.error().kind;
  }

  FakeEmbedder embedder_;
  SteadyClock clock_;
  PoolingOptions options_{.max_num_queued_reqs = 3, .max_num_queued_tokens = 40};
  PoolingEngine engine_{embedder_, options_, clock_, nullptr};
  uint64_t last_id_ = 0;
};

TEST_F(PoolingEngineTest, TakesOneSequenceOfEachRequestInTurn) {
  auto many = submit({sequence(1, 4), sequence(2, 4), sequence(3, 4), sequence(4, 4)});
  auto one = submit({sequence(9, 4)});
  engine_.start();
  const auto vectors = many.get();
  ASSERT_TRUE(vectors);
  ASSERT_EQ(vectors->size(), 4u);
  EXPECT_EQ((*vectors)[3], (std::vector<float>{4, 4, 3}));
  EXPECT_EQ((*one.get())[0], (std::vector<float>{9, 4, 3}));
  engine_.stop();
  EXPECT_EQ(embedder_.batches, (std::vector<std::vector<int>>{{1, 9, 2}, {3, 4}}));
  EXPECT_TRUE(engine_.idle());
  EXPECT_EQ(engine_.stats().tokens, 20u);
}

TEST_F(PoolingEngineTest, ABatchHoldsWhatFits) {
  auto result = submit({sequence(1, 10), sequence(2, 2), sequence(3, 1)});
  engine_.start();
  ASSERT_TRUE(result.get());
  engine_.stop();
  EXPECT_EQ(embedder_.batches, (std::vector<std::vector<int>>{{1, 2}, {3}}));
}

TEST_F(PoolingEngineTest, DimensionsCutAndNormalise) {
  auto result = submit({sequence(3, 4)}, 2);
  engine_.start();
  const auto vectors = result.get();
  ASSERT_TRUE(vectors);
  ASSERT_EQ((*vectors)[0].size(), 2u);
  EXPECT_FLOAT_EQ((*vectors)[0][0], 0.6f);
  EXPECT_FLOAT_EQ((*vectors)[0][1], 0.8f);
}

TEST_F(PoolingEngineTest, TheQueueIsBoundedInRequestsAndTokens) {
  auto first = submit({sequence(1, 10)});
  auto second = submit({sequence(1, 10), sequence(2, 10)});
  auto too_many_tokens = submit({sequence(1, 10), sequence(2, 1)});
  EXPECT_EQ(error_of(too_many_tokens), ErrorKind::kOverloaded);
  auto third = submit({sequence(1, 1)});
  auto too_many_requests = submit({sequence(1, 1)});
  EXPECT_EQ(error_of(too_many_requests), ErrorKind::kOverloaded);
  EXPECT_EQ(engine_.stats().rejected, 2u);
  EXPECT_EQ(engine_.stats().waiting, 3);
  engine_.start();
  EXPECT_TRUE(third.get());
}

TEST_F(PoolingEngineTest, ARequestAloneMayPassTheBoundOfTokens) {
  auto result = submit(std::vector<std::vector<TokenId>>(20, sequence(1, 10)));
  engine_.start();
  EXPECT_TRUE(result.get());
}

TEST_F(PoolingEngineTest, TheBackgroundComesLastAndSharesNoBatch) {
  auto background = submit({sequence(1, 2), sequence(2, 2)}, 0, true);
  auto many = submit({sequence(3, 4), sequence(4, 4), sequence(5, 4), sequence(6, 4)});
  auto one = submit({sequence(7, 2)});
  engine_.start();
  const auto vectors = background.get();
  ASSERT_TRUE(vectors);
  EXPECT_EQ((*vectors)[1], (std::vector<float>{2, 2, 3}));
  EXPECT_TRUE(many.get());
  EXPECT_TRUE(one.get());
  engine_.stop();
  EXPECT_EQ(embedder_.batches, (std::vector<std::vector<int>>{{3, 7, 4}, {5, 6}, {1, 2}}));
}

TEST_F(PoolingEngineTest, TheBackgroundTakesNobodysPlaceInTheQueue) {
  std::vector<std::future<Result<Vectors>>> results;
  for (int i = 0; i < 3; ++i) results.push_back(submit({sequence(1, 10)}, 0, true));
  auto too_many = submit({sequence(1, 1)}, 0, true);
  EXPECT_EQ(error_of(too_many), ErrorKind::kOverloaded);
  for (int i = 0; i < 3; ++i) results.push_back(submit({sequence(2, 10)}));
  EXPECT_EQ(engine_.stats().waiting, 6);
  engine_.start();
  for (auto& result : results) EXPECT_TRUE(result.get());
  auto later = submit({sequence(3, 10), sequence(3, 10), sequence(3, 10), sequence(3, 10)}, 0, true);
  EXPECT_TRUE(later.get());
}

TEST_F(PoolingEngineTest, CancelEndsARequestAndNoOther) {
  auto gone = submit({sequence(1, 4), sequence(2, 4)});
  const uint64_t id = last_id_;
  auto other = submit({sequence(3, 4)});
  engine_.cancel(id);
  engine_.cancel(id + 100);
  engine_.start();
  EXPECT_EQ(error_of(gone), ErrorKind::kCancelled);
  EXPECT_TRUE(other.get());
  engine_.stop();
  EXPECT_EQ(embedder_.batches, (std::vector<std::vector<int>>{{3}}));
}

TEST_F(PoolingEngineTest, DrainRefusesNewWorkAndStopEndsWhatWaits) {
  auto waits = submit({sequence(1, 4)});
  engine_.begin_drain();
  auto late = submit({sequence(2, 4)});
  EXPECT_EQ(error_of(late), ErrorKind::kShuttingDown);
  engine_.start();
  EXPECT_TRUE(waits.get());
  engine_.stop();
}

TEST_F(PoolingEngineTest, StopDuringABatchEndsTheRest) {
  std::promise<void> gate;
  embedder_.gate = gate.get_future().share();
  auto result = submit(std::vector<std::vector<TokenId>>(3, sequence(1, 10)));
  engine_.start();
  while (engine_.stats().running == 0) std::this_thread::yield();
  std::thread stopper([&] { engine_.stop(); });
  // New work is refused once stop() has begun; before that the queue may be full.
  for (bool stopping = false; !stopping;) {
    auto probe = submit({sequence(2, 1)});
    if (probe.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    stopping = error_of(probe) == ErrorKind::kShuttingDown;
  }
  gate.set_value();
  stopper.join();
  EXPECT_EQ(error_of(result), ErrorKind::kShuttingDown);
}

}  // namespace
}  // namespace pagoda::engine
