#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/request.h"
#include "api/openai/tests/request_fixture.h"

namespace pagoda::openai {
namespace {

TEST(TokenizeRequest, PromptOrMessages) {
  const auto parse = [](const char* body) { return parse_tokenize_request(body, test_options()); };
  EXPECT_EQ(verdict(parse(R"({})")), "400 prompt");
  EXPECT_EQ(verdict(parse(R"({"prompt":"a","messages":[]})")), "400 prompt");
  EXPECT_EQ(verdict(parse(R"({"prompt":["a"]})")), "400 prompt");
  EXPECT_EQ(verdict(parse(R"({"prompt":"a","model":"nope"})")), "404 model");
  const auto text =
      parse(R"({"prompt":"a","add_special_tokens":false,"parse_special":false,"return_token_strs":true})");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->prompt, "a");
  EXPECT_FALSE(text->add_special_tokens);
  EXPECT_FALSE(text->parse_special_tokens);
  EXPECT_TRUE(text->return_token_strs);
  const auto chat = parse(R"({"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(chat);
  EXPECT_TRUE(chat->context_json);
  EXPECT_FALSE(chat->prompt);
}

TEST(DetokenizeRequest, IdsAreChecked) {
  const auto parse = [](const char* body) { return parse_detokenize_request(body, test_options()); };
  for (const char* body :
       {R"({})", R"({"tokens":null})", R"({"tokens":[-1]})", R"({"tokens":[1000]})",
        R"({"tokens":[4294967301]})", R"({"tokens":[1.5]})", R"({"tokens":["a"]})", R"({"tokens":5})"}) {
    EXPECT_EQ(verdict(parse(body)), "400 tokens") << body;
  }
  EXPECT_THAT(parse(R"({"tokens":[1,2]})")->tokens, testing::ElementsAre(TokenId{1}, TokenId{2}));
  EXPECT_TRUE(parse(R"({"tokens":[]})"));
}

TEST(ApplyTemplateRequest, GivesTheContext) {
  const auto context =
      parse_apply_template_request(R"({"messages":[{"role":"user","content":"hi"}]})", test_options());
  ASSERT_TRUE(context);
  EXPECT_NE(context->find(R"("content":"hi")"), std::string::npos);
  EXPECT_EQ(verdict(parse_apply_template_request(R"({"prompt":"x"})", test_options())), "400 messages");
}

}  // namespace
}  // namespace pagoda::openai
