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
  inbox.settle({.left_queue = {1, 3}, .left_background_queue = {}, .ended = 0});
  EXPECT_TRUE(inbox.submit(request(3, 5), {}).has_value());
  EXPECT_FALSE(inbox.idle());
  inbox.settle({.left_queue = {2, 9}, .left_background_queue = {}, .ended = 3});
  EXPECT_TRUE(inbox.idle());
}

TEST(InboxTest, TheBackgroundHasALimitOfItsOwn) {
  EngineOptions options;
  options.max_num_queued_reqs = 2;
  options.max_num_queued_tokens = 10;
  Inbox inbox(options);
  const auto submit = [&](uint64_t id, size_t num_tokens, bool background) {
    EngineRequest r = request(id, num_tokens);
    r.background = background;
    return inbox.submit(std::move(r), {}).has_value();
  };
  EXPECT_TRUE(submit(1, 5, true));
  EXPECT_FALSE(submit(2, 6, true)) << "too many tokens";
  EXPECT_TRUE(submit(2, 5, true));
  EXPECT_FALSE(submit(3, 1, true)) << "too many requests";
  EXPECT_TRUE(submit(4, 5, false));
  EXPECT_TRUE(submit(5, 5, false));
  EXPECT_FALSE(submit(6, 1, false));
  inbox.settle({.left_queue = {}, .left_background_queue = {1, 5}, .ended = 1});
  EXPECT_FALSE(submit(6, 1, false));
  EXPECT_TRUE(submit(6, 1, true));
  inbox.settle({.left_queue = {2, 10}, .left_background_queue = {2, 6}, .ended = 4});
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
