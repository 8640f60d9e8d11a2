#include "api/http/stream_keeper.h"

#include <gtest/gtest.h>

#include <atomic>

namespace pagoda::http {
namespace {

using std::chrono::milliseconds;

class CountingStream final : public KeptStream {
 public:
  explicit CountingStream(int wanted) : wanted_(wanted) {}
  bool keep_alive() override { return ++calls < wanted_; }
  void wait_for(int count) const {
    while (calls < count) std::this_thread::sleep_for(milliseconds(1));
  }
  std::atomic<int> calls{0};

 private:
  const int wanted_;
};

TEST(StreamKeeper, CallsUntilTheStreamHasEnough) {
  StreamKeeper keeper(milliseconds(2));
  const auto two = std::make_shared<CountingStream>(2), five = std::make_shared<CountingStream>(5);
  keeper.add(two);
  keeper.add(five);
  five->wait_for(5);
  const auto late = std::make_shared<CountingStream>(3);
  keeper.add(late);  // the thread has gone to sleep, or is about to
  late->wait_for(3);
  EXPECT_EQ(two->calls, 2);
  EXPECT_EQ(five->calls, 5);
}

TEST(StreamKeeper, ForgetsStreamsThatAreGone) {
  StreamKeeper keeper(milliseconds(2));
  auto gone = std::make_shared<CountingStream>(1000000);
  const auto other = std::make_shared<CountingStream>(20);
  keeper.add(gone);
  gone->wait_for(1);
  gone.reset();
  keeper.add(other);
  other->wait_for(20);
}

TEST(StreamKeeper, ZeroIsNever) {
  StreamKeeper never(milliseconds(0)), soon(milliseconds(1));
  const auto quiet = std::make_shared<CountingStream>(10), busy = std::make_shared<CountingStream>(10);
  never.add(quiet);
  soon.add(busy);
  busy->wait_for(10);
  EXPECT_EQ(quiet->calls, 0);
}

TEST(StreamKeeper, EndsWhileStreamsWait) {
  const auto stream = std::make_shared<CountingStream>(10);
  for (int round = 0; round < 20; ++round) {
    StreamKeeper keeper(std::chrono::hours(1));
    keeper.add(stream);
  }
  EXPECT_EQ(stream->calls, 0);
}

}  // namespace
}  // namespace pagoda::http
