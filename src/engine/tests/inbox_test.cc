#include "engine/inbox.h"

#include <gtest/gtest.h>

namespace pagoda::engine {
namespace {

EngineRequest request(uint64_t id, size_t num_tokens) {
  EngineRequest r;
  r.id = {id};
  r.prompt.resize(num_tokens);
  return r;
}

TEST(InboxTest, KeepsTheOrderOfCommands) {
  Inbox inbox{EngineOptions{}};
  inbox.abort({1}, kAllChoices);  // nothing is live: forgotten
  ASSERT_TRUE(inbox.submit(request(1, 3), {}).has_value());
  inbox.abort({1}, 2);
  ASSERT_TRUE(inbox.submit(request(2, 3), {}).has_value());
  EXPECT_EQ(inbox.num_submitted(), 2);
  std::vector<Command> commands;
  EXPECT_TRUE(inbox.wait(false));
  inbox.take(commands);
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_TRUE(commands[0].request.has_value());
  EXPECT_FALSE(commands[1].request.has_value());
  EXPECT_EQ(commands[1].choice, 2);
  EXPECT_EQ(commands[2].id, RequestId{2});
  EXPECT_EQ(inbox.num_submitted(), 0);
}

TEST(InboxTest, CountsUntilSettled) {
  EngineOptions options;
  options.max_num_queued_reqs = 2;
  Inbox inbox(options);
  ASSERT_TRUE(inbox.submit(request(1, 3), {}).has_value());
  ASSERT_TRUE(inbox.submit(request(2, 4), {}).has_value());
  EXPECT_EQ(inbox.submit(request(3, 5), {}).error().kind, ErrorKind::kOverloaded);
  EXPECT_EQ(inbox.num_rejected(), 1u);
  inbox.settle({.left_queue = 1, .left_queue_tokens = 3, .ended = 0});
  EXPECT_TRUE(inbox.submit(request(3, 5), {}).has_value());
  EXPECT_FALSE(inbox.idle());
  inbox.settle({.left_queue = 2, .left_queue_tokens = 9, .ended = 3});
  EXPECT_TRUE(inbox.idle());
}

TEST(InboxTest, StopWakesAndRefuses) {
  Inbox inbox{EngineOptions{}};
  inbox.request_stop();
  EXPECT_FALSE(inbox.wait(false));
  EXPECT_EQ(inbox.submit(request(1, 1), {}).error().kind, ErrorKind::kShuttingDown);
}

}  // namespace
}  // namespace pagoda::engine
