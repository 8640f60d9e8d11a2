// Answers with calls and reasoning, whole and streamed.
#include <gtest/gtest.h>

#include <memory>

#include "api/openai/json_text.h"
#include "api/openai/output/output_format.h"
#include "api/openai/response.h"

namespace pagoda::openai {
namespace {

const std::string kText =
    "<think>hm</think>\n\nLooking.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, "
    "\"}\"]}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

ResponseOptions options(bool legacy = false) {
  ResponseOptions result;
  result.id = "chatcmpl-1";
  result.model = "tiny";
  result.logprobs = 0;
  result.return_token_ids = true;
  result.parsing.format =
      std::make_shared<const OutputFormat>(*choose_output_format("<tool_call><think>", "", ""));
  result.parsing.tools = result.parsing.reasoning = true;
  result.parsing.legacy_call = result.parsing.one_call = legacy;
  result.parsing.tool_specs = {{"f", "{}"}, {"now", "{}"}};
  return result;
}

// The text in tokens of three bytes.
std::vector<ChoiceDelta> deltas(const std::string& text, Finish finish) {
  std::vector<ChoiceDelta> result;
  for (size_t at = 0; at < text.size(); at += 3) {
    ChoiceDelta delta;
    delta.text = text.substr(at, 3);
    delta.ids = {TokenId{static_cast<int32_t>(at)}};
    delta.scores = {ScoredToken{{delta.ids[0], delta.text, -0.5}, 1, {}}};
    result.push_back(std::move(delta));
  }
  if (result.empty()) result.emplace_back();
  result.back().finish = finish;
  return result;
}

Json whole(const std::string& text, Finish finish, bool legacy = false) {
  const auto builder = make_chat_builder(options(legacy));
  for (ChoiceDelta& delta : deltas(text, finish)) builder->add(std::move(delta));
  return (*parse_json(builder->body({})))["choices"][0];
}

struct Stream {
  std::vector<Json> choices;
  std::string content, reasoning, finish;
  Json calls = Json::array(), logprobs = Json::array(), ids = Json::array();
};

Stream streamed(const std::string& text, Finish finish) {
  const auto builder = make_chat_builder(options());
  Stream stream;
  for (ChoiceDelta& delta : deltas(text, finish)) {
    for (const std::string& chunk : builder->chunks(std::move(delta), {})) {
      stream.choices.push_back((*parse_json(chunk))["choices"][0]);
    }
  }
  for (const Json& choice : stream.choices) {
    const Json& delta = choice["delta"];
    stream.content += delta.value("content", "");
    stream.reasoning += delta.value("reasoning_content", "");
    EXPECT_EQ(delta.contains("reasoning"), delta.contains("reasoning_content"));
    if (choice["finish_reason"].is_string()) stream.finish += choice["finish_reason"].get<std::string>();
    if (choice["logprobs"].is_object()) {
      for (const Json& entry : choice["logprobs"]["content"]) stream.logprobs.push_back(entry);
    }
    if (choice.contains("token_ids")) {
      for (const Json& id : choice["token_ids"]) stream.ids.push_back(id);
    }
    if (!delta.contains("tool_calls")) continue;
    EXPECT_EQ(delta["tool_calls"].size(), 1u);
    const Json& call = delta["tool_calls"][0];
    const size_t index = call["index"].get<size_t>();
    if (index == stream.calls.size()) {
      EXPECT_EQ(call["type"], "function");
      EXPECT_EQ(call["function"]["arguments"], "");
      EXPECT_FALSE(call["id"].get<std::string>().empty());
      stream.calls.push_back(call);
    } else {
      EXPECT_EQ(index + 1, stream.calls.size());
      EXPECT_EQ(call.size(), 2u);
      stream.calls[index]["function"]["arguments"].get_ref<std::string&>() += call["function"]["arguments"];
    }
  }
  return stream;
}

Json without_ids(Json calls) {
  for (Json& call : calls) {
    call.erase("id");
    call.erase("index");
  }
  return calls;
}

TEST(ChatToolsResponse, Whole) {
  const Json choice = whole(kText, Finish::kStop);
  const Json& message = choice["message"];
  EXPECT_EQ(message["content"], "Looking.");
  EXPECT_EQ(message["reasoning_content"], "hm");
  EXPECT_EQ(message["reasoning"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"], (Json{{"name", "f"}, {"arguments", R"({"a": [1, "}"]})"}}));
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["token_ids"].size(), (kText.size() + 2) / 3);
}

TEST(ChatToolsResponse, ContentIsNullBesideCallsAlone) {
  const std::string text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  EXPECT_TRUE(whole(text, Finish::kStop)["message"]["content"].is_null());
  EXPECT_TRUE(whole("<think>r", Finish::kLength)["message"]["content"].is_null());
  EXPECT_EQ(whole("", Finish::kStop)["message"]["content"], "");
  EXPECT_FALSE(whole("x", Finish::kStop)["message"].contains("tool_calls"));
}

// CASES B013: cut anywhere, by a limit or by itself; the stream says the same as the whole answer.
TEST(ChatToolsResponse, CutAnywhere) {
  for (const Finish finish : {Finish::kLength, Finish::kStop}) {
    for (size_t size = 0; size <= kText.size(); ++size) {
      const std::string text = kText.substr(0, size);
      const Json choice = whole(text, finish);
      const Json& message = choice["message"];
      const Stream stream = streamed(text, finish);
      EXPECT_EQ(choice["finish_reason"], stream.finish);
      EXPECT_EQ(message["content"].is_null() ? "" : message["content"].get<std::string>(), stream.content)
          << text;
      const Json calls = message.value("tool_calls", Json::array());
      EXPECT_EQ(without_ids(calls), without_ids(stream.calls)) << text;
      EXPECT_EQ(choice["logprobs"]["content"], stream.logprobs) << text;
      EXPECT_EQ(choice["token_ids"], stream.ids) << text;
      bool all_whole = true;
      for (const Json& call : calls) {
        all_whole = all_whole && parse_json(call["function"]["arguments"].get<std::string>()).has_value();
      }
      if (finish == Finish::kLength) {
        EXPECT_EQ(choice["finish_reason"], "length");
      }
      if (choice["finish_reason"] == "tool_calls") {
        EXPECT_TRUE(all_whole && !calls.empty()) << text;
      }
    }
  }
}

TEST(ChatToolsResponse, FunctionCall) {
  const Json choice = whole(kText, Finish::kStop, true);
  EXPECT_EQ(choice["message"]["function_call"]["name"], "f");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "function_call");
}

}  // namespace
}  // namespace pagoda::openai
