#include "service/service.h"

#include <gmock/gmock.h>

#include "service/tests/service_fixture.h"

namespace pagoda::service {
namespace {

using engine::FinishReason;

TEST_F(ServiceTest, TextUsageAndEnd) {
  build(script("a", {"hel", "lo"}));
  const auto received = generate(request("script:a"));
  EXPECT_EQ(received->text(), "hello");
  ASSERT_EQ(received->prompts.size(), 1u);
  EXPECT_EQ(received->prompts[0].ids.size(), 1u);
  EXPECT_EQ(received->choices.back().finish, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(received->choices.back().stop_reason));
  ASSERT_TRUE(received->end);
  EXPECT_FALSE(received->end->error);
  EXPECT_EQ(received->end->usage.prompt_tokens, 1);
  EXPECT_EQ(received->end->usage.completion_tokens, 2);
  EXPECT_TRUE(engine_->idle());
}

// CASES B001 and B002.
TEST_F(ServiceTest, CharactersOverSeveralTokens) {
  build(script("a", {"a", "\xf0\x9f", "\x98", "\x80", "b"}));
  auto received = generate(request("script:a"));
  ASSERT_EQ(received->choices.size(), 4u);  // a, the emoji, b, the end
  EXPECT_EQ(received->choices[1].text, "😀");
  EXPECT_EQ(received->choices[1].token_ids.size(), 3u);
  EXPECT_EQ(received->end->usage.completion_tokens, 5);
  GenerationRequest cut = request("script:a");
  cut.max_tokens = 3;
  received = generate(cut);
  EXPECT_EQ(received->text(), "a\xEF\xBF\xBD");
  EXPECT_EQ(received->choices.back().finish, FinishReason::kLength);
}

TEST_F(ServiceTest, StopStringEndsTheChoiceInTheEngine) {
  build(script("a", {"x", "END", "y"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.stop = {"zz", "ND"};
  wanted.sampling.num_logprobs = 1;
  const auto received = generate(wanted);
  EXPECT_EQ(received->text(), "xE");
  EXPECT_EQ(std::get<std::string>(received->choices.back().stop_reason), "ND");
  EXPECT_EQ(received->end->usage.completion_tokens, 2);
  size_t scores = 0;
  for (const ChoiceEvent& event : received->choices) {
    EXPECT_EQ(event.logprobs.size(), event.token_ids.size());
    scores += event.logprobs.size();
  }
  EXPECT_EQ(scores, 2u);
  EXPECT_TRUE(engine_->idle());
  EXPECT_EQ(engine_->debug_blocks().used, 0);
}

TEST_F(ServiceTest, ChoicesEndOneByOne) {
  build(script("a", {"x"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.n = 3;
  wanted.max_tokens = 4;
  const auto received = generate(wanted);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(received->text(i), "xxxx");
  EXPECT_EQ(received->end->usage.completion_tokens, 12);
  EXPECT_EQ(received->end->usage.prompt_tokens, 1);
}

TEST_F(ServiceTest, ContextLength) {
  build(script("a", {"x"}, true));
  GenerationRequest wanted = request(std::string(100, 'p'));
  wanted.max_tokens = 29;
  auto received = generate(wanted);
  ASSERT_TRUE(received->refused);
  EXPECT_EQ(received->refused->kind, ErrorKind::kContextLengthExceeded);
  EXPECT_EQ(received->refused->message,
            "This model's maximum context length is 128 tokens. However, you requested 29 output tokens and "
            "your prompt "
            "contains 100 input tokens, for a total of 129 tokens. Please reduce the length of the input "
            "prompt or the "
            "number of requested output tokens.");
  wanted.max_tokens = 28;
  EXPECT_EQ(generate(wanted)->end->usage.completion_tokens, 28);
  wanted.max_tokens = INT64_MAX;
  EXPECT_EQ(generate(wanted)->refused->kind, ErrorKind::kContextLengthExceeded);
  wanted.max_tokens = std::nullopt;
  EXPECT_EQ(generate(wanted)->end->usage.completion_tokens, 28);
  wanted.default_max_tokens = 16;
  EXPECT_EQ(generate(wanted)->end->usage.completion_tokens, 16);
  wanted.prompt = TextPrompt{std::string(127, 'p')};
  EXPECT_EQ(generate(wanted)->end->usage.completion_tokens, 1);
  wanted.prompt = TextPrompt{std::string(128, 'p')};
  EXPECT_TRUE(generate(wanted)->refused);
  wanted.max_tokens = 0;
  EXPECT_EQ(generate(wanted)->end->usage.completion_tokens, 0);
}

TEST_F(ServiceTest, LongTextIsRefusedBeforeItIsEncoded) {
  build(script("a", {"x"}));
  const auto received = generate(request(std::string(1 << 20, 'p')));
  ASSERT_TRUE(received->refused);
  EXPECT_THAT(received->refused->message, testing::HasSubstr("at least"));
}

TEST_F(ServiceTest, WhatCannotBeAPrompt) {
  build(script("a", {"x"}));
  EXPECT_EQ(generate(request(""))->refused->param, "prompt");
  EXPECT_EQ(generate(request("\xff"))->refused->kind, ErrorKind::kInvalidArgument);
  GenerationRequest ids = request("");
  ids.prompt = std::vector<TokenId>{TokenId{-1}};
  EXPECT_THAT(generate(ids)->refused->message, testing::HasSubstr("out of vocabulary"));
  ids.prompt = ChatPrompt{"{}"};
  EXPECT_EQ(generate(ids)->refused->kind, ErrorKind::kUnimplemented);
  GenerationRequest bias = request("a");
  bias.sampling.logit_bias = {{TokenId{1 << 20}, 1.0f}};
  EXPECT_EQ(generate(bias)->refused->param, "logit_bias");
}

TEST_F(ServiceTest, CancelAtAnyStage) {
  build(script("a", {"x"}, true));
  for (const int steps : {0, 1, 5}) {
    const auto received = start(request("script:a"));
    for (int i = 0; i < steps; ++i) engine_->step();
    service_->flush();
    ASSERT_TRUE(received->generation);
    received->generation->cancel();
    received->generation->cancel();
    run();
    ASSERT_TRUE(received->end) << steps;
    EXPECT_EQ(received->end->error->kind, ErrorKind::kCancelled);
    EXPECT_TRUE(engine_->idle());
    received->generation->cancel();
  }
  engine_->check_integrity();
}

TEST_F(ServiceTest, DeadlineAndShutdown) {
  build(script("a", {"x"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.timeout = std::chrono::milliseconds(500);
  auto received = start(wanted);
  engine_->step();
  service_->flush();
  clock_.advance(std::chrono::seconds(1));
  run();
  ASSERT_TRUE(received->end);
  EXPECT_EQ(received->end->error->kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(received->text(), "x");

  received = start(request("script:a"));
  engine_->step();
  engine_->begin_drain();
  EXPECT_EQ(start(request("script:a"))->refused->kind, ErrorKind::kShuttingDown);
  engine_->stop();
  service_->flush();
  ASSERT_TRUE(received->end);
  EXPECT_EQ(received->end->error->kind, ErrorKind::kShuttingDown);
}

TEST_F(ServiceTest, DetokenizerFailuresEndTheRequestOnly) {
  for (const TokenId bad : {scripted::kFault, scripted::kThrow}) {
    scripted::ScriptTable table;
    scripted::Script faulty;
    faulty.steps = {{table.intern("a")}, {bad}};
    table.add("bad", std::move(faulty));
    build(std::move(table));
    const auto received = generate(request("script:bad"));
    ASSERT_TRUE(received->end);
    EXPECT_EQ(received->end->error->kind, ErrorKind::kInternal);
    EXPECT_EQ(received->text(), "a");
    EXPECT_TRUE(engine_->idle());
  }
}

TEST_F(ServiceTest, PromptScoresAndText) {
  build(script("a", {"x"}));
  GenerationRequest wanted = request("abc");
  wanted.prompt_logprobs = 2;
  wanted.prompt_text = true;
  wanted.max_tokens = 0;
  auto received = generate(wanted);
  ASSERT_EQ(received->prompts.size(), 1u);
  EXPECT_EQ(received->prompts[0].text, "abc");
  ASSERT_EQ(received->prompts[0].logprobs.size(), 3u);
  EXPECT_EQ(received->prompts[0].logprobs[0].token.bytes, "a");
  EXPECT_EQ(received->prompts[0].logprobs[1].token.bytes, "b");
  EXPECT_EQ(received->prompts[0].logprobs[1].top.size(), 2u);
  EXPECT_LT(received->prompts[0].logprobs[1].token.logprob, 0);
  wanted.prompt = std::vector<TokenId>{TokenId{8 + 'q'}};
  EXPECT_EQ(generate(wanted)->prompts[0].text, "q");
}

TEST_F(ServiceTest, TruncationKeepsTheEnd) {
  build(script("a", {"x"}));
  GenerationRequest wanted = request(std::string(1000, 'p') + "q");
  wanted.truncate_prompt_tokens = 3;
  wanted.prompt_text = true;
  EXPECT_EQ(generate(wanted)->prompts.at(0).text, "ppq");
}

TEST_F(ServiceTest, BadWordsAreEncoded) {
  build(script("a", {"x"}, true));
  GenerationRequest wanted = request("script:a");
  wanted.bad_words = {"x"};
  wanted.max_tokens = 5;
  EXPECT_THAT(generate(wanted)->text(), testing::Not(testing::HasSubstr("x")));
}

TEST_F(ServiceTest, ManyAtOnce) {
  build(script("a", {"a", "b", "c"}), 3);
  std::vector<std::shared_ptr<Received>> all;
  for (int i = 0; i < 100; ++i) all.push_back(start(request("script:a")));
  while (engine_->step()) {
  }
  service_->flush();
  for (const auto& received : all) {
    EXPECT_EQ(received->text(), "abc");
    ASSERT_TRUE(received->end);
    EXPECT_FALSE(received->end->error);
  }
}

}  // namespace
}  // namespace pagoda::service
