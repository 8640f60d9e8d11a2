#include "api/http/generation_call.h"

#include <gmock/gmock.h>

#include "api/http/tests/recording_writer.h"
#include "service/tests/manual_executor.h"
#include "service/tests/service_fixture.h"

namespace pagoda::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class GenerationCallTest : public service::ServiceTest {
 protected:
  std::shared_ptr<RecordingWriter> start_call(std::vector<service::GenerationRequest> prompts, bool stream) {
    auto writer = std::make_shared<RecordingWriter>();
    writer->tasks = tasks_;
    openai::ResponseOptions response;
    response.id = "cmpl-1";
    response.model = "m";
    response.num_prompts = static_cast<int>(prompts.size());
    response.n = prompts.front().n;
    CallOptions options;
    options.n = response.n;
    options.stream = stream;
    options.short_events = short_events_;
    options.headers = {{"Warning", "w"}};
    options.builder = openai::make_completion_builder(response);
    call_ = std::make_shared<GenerationCall>(std::move(options), writer);
    call_->start(*service_, std::move(prompts));
    service_->flush();
    return writer;
  }

  std::shared_ptr<service::ManualExecutor> tasks_ = std::make_shared<service::ManualExecutor>();
  bool short_events_ = false;
  std::shared_ptr<GenerationCall> call_;  // the latest
};

TEST_F(GenerationCallTest, Whole) {
  build(service::script("a", {"hi"}));
  const auto writer = start_call({request("script:a")}, false);
  EXPECT_EQ(writer->answers, 0);
  run();
  EXPECT_EQ(writer->status, 200);
  EXPECT_EQ(writer->answers, 1);
  EXPECT_EQ(writer->header("Warning"), "w");
  EXPECT_THAT(writer->body, HasSubstr(R"("text":"hi")"));
}

TEST_F(GenerationCallTest, StreamBeginsWithTheFirstToken) {
  build(service::script("a", {"hi"}));
  const auto writer = start_call({request("script:a")}, true);
  EXPECT_EQ(writer->answers, 0);
  engine_->step();
  service_->flush();
  EXPECT_EQ(writer->status, 200);
  EXPECT_EQ(writer->header("Content-Type"), "text/event-stream; charset=utf-8");
  run();
  EXPECT_THAT(writer->body, EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(writer->ended);
}

TEST_F(GenerationCallTest, OneBadPromptFailsAll) {
  build(service::script("a", {"x"}, true));
  for (const bool stream : {false, true}) {
    const auto writer = start_call({request("script:a"), request(""), request("script:a")}, stream);
    run();
    EXPECT_EQ(writer->status, 400);
    EXPECT_EQ(writer->answers, 1);
    EXPECT_THAT(writer->body, HasSubstr(R"("param":"prompt")"));
    EXPECT_TRUE(engine_->idle());
  }
}

TEST_F(GenerationCallTest, FailureOfOnePromptCancelsTheOthers) {
  scripted::ScriptTable table = service::script("a", {"x"}, true);
  scripted::Script faulty;
  faulty.steps = {{table.intern("y")}, {scripted::kFault}};
  table.add("bad", std::move(faulty));
  build(std::move(table));
  const auto writer = start_call({request("script:a"), request("script:bad")}, true);
  run();
  EXPECT_EQ(writer->status, 200);
  EXPECT_TRUE(writer->ended);
  EXPECT_THAT(writer->body, HasSubstr(R"(data: {"error":)"));
  EXPECT_THAT(writer->body, Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(engine_->idle());
  EXPECT_LT(engine_->stats().generation_tokens, 10u);
}

TEST_F(GenerationCallTest, DeadlineBeforeTheFirstTokenIsAStatus) {
  build(service::script("a", {"x"}, true));
  auto late = request("script:a");
  late.timeout = std::chrono::milliseconds(10);
  const auto writer = start_call({late}, true);
  clock_.advance(std::chrono::seconds(1));
  run();
  EXPECT_EQ(writer->status, 504);
  EXPECT_EQ(writer->answers, 1);
}

TEST_F(GenerationCallTest, AStreamWithoutATokenIsKeptAliveByComments) {
  build(service::script("a", {"hi"}));
  const auto writer = start_call({request("script:a")}, true);
  EXPECT_TRUE(call_->keep_alive());
  EXPECT_TRUE(call_->keep_alive());
  EXPECT_EQ(writer->status, 200);
  EXPECT_EQ(writer->header("Warning"), "w");
  const std::string comment = ": the first token is being computed\n\n";
  EXPECT_EQ(writer->body, comment + comment);
  engine_->step();
  service_->flush();
  EXPECT_FALSE(call_->keep_alive());
  run();
  EXPECT_FALSE(call_->keep_alive());
  EXPECT_EQ(writer->answers, 1);
  EXPECT_THAT(writer->body, ::testing::StartsWith(comment + comment + "data: {"));
  EXPECT_THAT(writer->body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(GenerationCallTest, WhatFailsAfterACommentIsAnEvent) {
  build(service::script("a", {"x"}, true));
  auto late = request("script:a");
  late.timeout = std::chrono::milliseconds(10);
  const auto writer = start_call({late}, true);
  EXPECT_TRUE(call_->keep_alive());
  clock_.advance(std::chrono::seconds(1));
  run();
  EXPECT_EQ(writer->status, 200);
  EXPECT_TRUE(writer->ended);
  EXPECT_THAT(writer->body, HasSubstr(R"(data: {"error":)"));
  EXPECT_THAT(writer->body, HasSubstr("timeout"));
}

TEST_F(GenerationCallTest, ARefusedStreamIsNotKeptAlive) {
  build(service::script("a", {"x"}, true));
  const auto writer = start_call({request("")}, true);
  EXPECT_FALSE(call_->keep_alive());
  EXPECT_EQ(writer->status, 400);
  EXPECT_EQ(writer->answers, 1);
}

TEST_F(GenerationCallTest, ClientGoneCancels) {
  build(service::script("a", {"x"}, true));
  for (const bool stream : {false, true}) {
    for (const int steps : {0, 3}) {
      const auto writer = start_call({request("script:a"), request("script:a")}, stream);
      for (int i = 0; i < steps; ++i) engine_->step();
      writer->close();
      run();
      EXPECT_TRUE(engine_->idle());
      EXPECT_THAT(writer->body, Not(HasSubstr("error")));
    }
  }
  EXPECT_LT(engine_->stats().generation_tokens, 40u);
}

TEST_F(GenerationCallTest, ShortEventsAreMadeByTheWritersExecutor) {
  build(service::script("a", {"a", "b", "c"}));
  short_events_ = true;
  const auto writer = start_call({request("script:a")}, true);
  engine_->step();
  service_->flush();
  EXPECT_EQ(writer->writes, 1);
  for (int step = 2; step <= 3; ++step) {
    engine_->step();
    service_->flush();
    EXPECT_EQ(writer->writes, step - 1);
    tasks_->run();
    EXPECT_EQ(writer->writes, step);
  }
  while (engine_->step()) tasks_->run();
  tasks_->run();
  EXPECT_THAT(writer->body, EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(writer->ended);
}

TEST_F(GenerationCallTest, OtherAnswersStayOnTheTextPool) {
  build(service::script("a", {"a", "b", "c"}));
  struct Case {
    bool short_events, stream;
    size_t prompts;
  };
  for (const Case& c : {Case{false, true, 1}, Case{true, false, 1}, Case{true, true, 2}}) {
    short_events_ = c.short_events;
    const auto writer =
        start_call(std::vector<service::GenerationRequest>(c.prompts, request("script:a")), c.stream);
    run();
    EXPECT_EQ(writer->status, 200);
    EXPECT_TRUE(writer->ended);
  }
  EXPECT_EQ(tasks_->posts(), 0);
}

}  // namespace
}  // namespace pagoda::http
