#include "api/openai/logprobs_json.h"

#include <gtest/gtest.h>

#include <limits>

namespace pagoda::openai {
namespace {

TokenLogprob token(int id, const std::string& bytes, double logprob) {
  return {TokenId{id}, bytes, logprob};
}

// CASES B025.
TEST(ChatLogprobs, BytesOfPartialTokens) {
  std::vector<ScoredToken> scores;
  for (const char* piece : {"a", "\xf0", "\x9f", "\x98", "\x80", "b"})
    scores.push_back({token(1, piece, -1), 1, {}});
  std::string bytes;
  for (const Json& entry : chat_logprobs(scores)) {
    ASSERT_EQ(entry["bytes"].size(), 1u);
    bytes.push_back(static_cast<char>(entry["bytes"][0].get<int>()));
  }
  EXPECT_EQ(bytes, "a😀b");
  EXPECT_EQ(chat_logprobs(scores)[2]["token"], "bytes:\\x9f");
}

// CASES B026: two partial characters keep two keys; the sampled token is added when it is not among the top.
TEST(CompletionLogprobs, KeysDoNotCollide) {
  CompletionLogprobs logprobs;
  logprobs.add({{token(3, "z", -3), 3, {token(1, "\x9f", -1), token(2, "\x98", -2)}}});
  EXPECT_EQ(dump_json(logprobs.take()["top_logprobs"][0]),
            R"({"bytes:\\x9f":-1.0,"bytes:\\x98":-2.0,"z":-3.0})");
  logprobs.add({{token(1, "a", -1), 1, {token(1, "a", -1), token(2, "a", -2)}}});
  EXPECT_EQ(dump_json(logprobs.take()["top_logprobs"][0]), R"({"a":-1.0,"token_id:2":-2.0})");
}

// CASES B030.
TEST(CompletionLogprobs, NoInfinity) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CompletionLogprobs logprobs;
  logprobs.add({{token(1, "a", -kInf), 1, {token(2, "b", -kInf), token(3, "c", std::nan(""))}}});
  const Json json = logprobs.take();
  EXPECT_EQ(json["token_logprobs"][0], -9999.0);
  EXPECT_EQ(dump_json(json["top_logprobs"][0]), R"({"b":-9999.0,"c":-9999.0,"a":-9999.0})");
}

TEST(CompletionLogprobs, OffsetsCountCodePoints) {
  CompletionLogprobs logprobs;
  for (const char* piece : {"é", "\xf0", "\x9f\x98", "\x80", "b"})
    logprobs.add({{token(1, piece, -1), 1, {}}});
  const Json json = logprobs.take();
  EXPECT_EQ(dump_json(json["text_offset"]), "[0,1,1,1,2]");
  EXPECT_EQ(dump_json(json["top_logprobs"][0]), R"({"é":-1.0})");  // logprobs 0: the token itself
  logprobs.add({{token(1, "c", -1), 1, {}}});
  EXPECT_EQ(dump_json(logprobs.take()["text_offset"]), "[3]");
}

TEST(CompletionLogprobs, OffsetsOfBytesThatAreNoText) {
  CompletionLogprobs logprobs;
  // The text is U+FFFD h U+FFFD A U+FFFD U+FFFD U+FFFD U+1F600 x.
  for (const char* piece : {"\x80", "h", "\xe2\x82", "A", "\xed", "\xa0\x80", "\xf0\x9f", "\x98\x80x", "y"})
    logprobs.add({{token(1, piece, -1), 1, {}}});
  EXPECT_EQ(dump_json(logprobs.take()["text_offset"]), "[0,1,2,3,4,5,7,7,9]");
}

TEST(CompletionLogprobs, OffsetsOfAnEchoAreThoseOfItsText) {
  const auto offsets = [](const std::vector<std::string>& pieces, const std::string& text) {
    CompletionLogprobs logprobs;
    std::vector<ScoredToken> scores;
    for (const std::string& piece : pieces) scores.push_back({token(1, piece, -1), 1, {}});
    logprobs.add_prompt(scores, text);
    logprobs.add({{token(2, "!", -1), 1, {}}});
    const Json json = logprobs.take();
    EXPECT_TRUE(json["token_logprobs"][0].is_null());
    EXPECT_TRUE(json["top_logprobs"][0].is_null());
    return dump_json(json["text_offset"]);
  };
  EXPECT_EQ(offsets({"<s>", "hé", " b"}, "hé b"), "[0,0,2,4]");     // a BOS that the text does not show
  EXPECT_EQ(offsets({"<s>", "hé", " b"}, "<s>hé b"), "[0,3,5,7]");  // ids: it does
  EXPECT_EQ(offsets({"<s>", "<s>", "a"}, "<s>a"), "[0,0,3,4]");     // written by the user, too
  EXPECT_EQ(offsets({"<s>", " a", " b"}, "a b"), "[0,0,1,3]");      // SentencePiece's own space
  EXPECT_EQ(offsets({"<s>"}, ""), "[0,0]");
  EXPECT_EQ(offsets({"a", "\xe6"}, "a\xef\xbf\xbd"), "[0,1,2]");  // cut inside a character
}

// The output that completes a character of the prompt is text of its own.
TEST(CompletionLogprobs, OutputCompletesNoCharacterOfTheEcho) {
  CompletionLogprobs logprobs;
  logprobs.add_prompt({{token(1, "a", -1), 1, {}}, {token(1, "\xe6", -1), 1, {}}}, "a\xef\xbf\xbd");
  logprobs.add({{token(2, "\x88", -1), 1, {}}, {token(2, "\x91", -1), 1, {}}, {token(2, "b", -1), 1, {}}});
  EXPECT_EQ(dump_json(logprobs.take()["text_offset"]), "[0,1,2,3,4]");
}

TEST(PromptLogprobs, ShapeOfVllm) {
  const Json json = prompt_logprobs({{token(1, "a", 0), 0, {}}, {token(2, "b", -2), 5, {token(3, "c", -1)}}});
  EXPECT_EQ(dump_json(json),
            R"([null,{"2":{"logprob":-2.0,"rank":5,"decoded_token":"b"},"3":{"logprob":-1.0,"rank":1,)"
            R"("decoded_token":"c"}}])");
}

}  // namespace
}  // namespace pagoda::openai
