#include <gtest/gtest.h>

#include <cstdlib>

#include "api/openai/embedding_request.h"
#include "api/openai/embedding_response.h"
#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

ParseOptions options() {
  ParseOptions options;
  options.model_names = {"m"};
  options.vocab_size = 100;
  return options;
}

// The error's param, "" for success.
template <class Parse>
std::string param_of(Parse parse, const std::string& body) {
  const auto request = parse(body, options());
  return request ? "" : request.error().param;
}

TEST(EmbeddingRequestTest, FourShapesOfInput) {
  const auto count = [](const std::string& input) {
    const auto request = parse_embedding_request(R"({"input":)" + input + "}", options());
    return request ? request->inputs.size() : 0;
  };
  EXPECT_EQ(count(R"("x")"), 1u);
  EXPECT_EQ(count(R"(["x","y"])"), 2u);
  EXPECT_EQ(count("[1,2]"), 1u);
  EXPECT_EQ(count("[[1,2],[3]]"), 2u);
  EXPECT_EQ(count(R"("")"), 1u);
  EXPECT_EQ(count(R"([""])"), 1u);
}

TEST(EmbeddingRequestTest, WrongInputsNameTheField) {
  for (const char* const input : {"[]", "[[]]", "true", R"({"a":1})", "null", "1", R"(["x",1])", R"([1,"x"])",
                                  R"([[1],"x"])", "[-1]", "[[-1]]", "[100]", "[2147483648]", "[4294967301]",
                                  "[9223372036854775808]", "[1.5]", "[true]", "[null]", "[[1],[100]]"}) {
    EXPECT_EQ(param_of(parse_embedding_request, R"({"input":)" + std::string(input) + "}"), "input") << input;
  }
  EXPECT_EQ(param_of(parse_embedding_request, "{}"), "input");
}

TEST(EmbeddingRequestTest, NumberOfInputsIsBounded) {
  const auto body = [](size_t count) {
    std::string text = R"({"input":["x")";
    for (size_t i = 1; i < count; ++i) text += R"(,"x")";
    return text + "]}";
  };
  EXPECT_EQ(param_of(parse_embedding_request, body(kMaxEmbeddingInputs)), "");
  EXPECT_EQ(param_of(parse_embedding_request, body(kMaxEmbeddingInputs + 1)), "input");
}

TEST(EmbeddingRequestTest, WrongFieldsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("encoding_format":"hex")", "encoding_format"},
      {R"("encoding_format":1)", "encoding_format"},
      {R"("dimensions":0)", "dimensions"},
      {R"("dimensions":-1)", "dimensions"},
      {R"("dimensions":1.5)", "dimensions"},
      {R"("dimensions":"2")", "dimensions"},
      {R"("user":1)", "user"},
      {R"("model":1)", "model"},
      {R"("model":"other")", "model"},
      {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
      {R"("add_special_tokens":1)", "add_special_tokens"}};
  for (const auto& [field, param] : cases) {
    EXPECT_EQ(param_of(parse_embedding_request, R"({"input":"x",)" + std::string(field) + "}"), param);
  }
}

TEST(EmbeddingResponseTest, Base64IsLittleEndianFloat32) {
  EXPECT_EQ(base64_floats({1.0f, -2.5f}), "AACAPwAAIMA=");
  EXPECT_EQ(base64_floats({}), "");
  EXPECT_EQ(base64_floats({1.0f}), "AACAPw==");
  EXPECT_EQ(base64_floats({1.0f, 1.0f, 1.0f}), "AACAPwAAgD8AAIA/");
}

TEST(EmbeddingResponseTest, FloatsReadBackExactly) {
  const std::vector<float> values = {0.1f, -1.0f / 3, 1e-38f, 3e38f, 1.0f, -0.0f, 1e-45f};
  const auto json = parse_json(embedding_json({"id", 1, "m", 7}, {values, values}, false));
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["object"], "list");
  EXPECT_EQ((*json)["usage"]["total_tokens"], 7);
  EXPECT_EQ((*json)["data"][1]["index"], 1);
  const auto& list = (*json)["data"][1]["embedding"];
  ASSERT_EQ(list.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(list[i].get<double>(), static_cast<double>(values[i]));
}

TEST(RerankRequestTest, DocumentsAreTextsOrObjects) {
  const auto request =
      parse_rerank_request(R"({"query":"q","documents":["a",{"text":"b"}],"top_n":9})", options());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->top_n, 2u);
  for (const char* const documents : {"[]", "1", R"("a")", "[1]", R"([{"x":1}])", "null"}) {
    EXPECT_EQ(param_of(parse_rerank_request, R"({"query":"q","documents":)" + std::string(documents) + "}"),
              "documents");
  }
  EXPECT_EQ(param_of(parse_rerank_request, R"({"documents":["a"]})"), "query");
  EXPECT_EQ(param_of(parse_rerank_request, R"({"query":"q","documents":["a"],"top_n":-1})"), "top_n");
}

TEST(ScoreRequestTest, OneAgainstManyOrPairs) {
  EXPECT_EQ(param_of(parse_score_request, R"({"text_1":"a","text_2":["b","c"]})"), "");
  EXPECT_EQ(param_of(parse_score_request, R"({"text_1":["a","d"],"text_2":["b","c"]})"), "");
  EXPECT_EQ(param_of(parse_score_request, R"({"text_1":["a","d"],"text_2":["b"]})"), "text_1");
  EXPECT_EQ(param_of(parse_score_request, R"({"text_1":"a"})"), "text_2");
}

}  // namespace
}  // namespace pagoda::openai
