#include "api/openai/messages_response.h"

#include <gtest/gtest.h>

#include "api/openai/json_text.h"
#include "api/openai/tests/scripted_parser.h"

namespace pagoda::openai {
namespace {

std::unique_ptr<ResponseBuilder> builder(bool omit_thinking = false) {
  MessagesOptions options;
  options.common.id = "msg_1";
  options.common.model = "tiny";
  options.max_tokens = 10;
  options.omit_thinking = omit_thinking;
  return make_messages_builder(std::move(options), std::make_unique<ScriptedParser>());
}

ChoiceDelta delta(std::string text, Finish finish = Finish::kNone) {
  return {.text = std::move(text), .finish = finish};
}

Json json(const std::string& text) {
  return std::move(*parse_json(text));
}

const std::vector<ChoiceDelta>& everything() {
  static const std::vector<ChoiceDelta> deltas = {delta("r:hm"),  delta("r:m"),   delta("c:he"),
                                                  delta("c:llo"), delta("t:add"), delta("a:{\"a\":"),
                                                  delta("a:1}"),  delta("t:sub"), delta("", Finish::kStop)};
  return deltas;
}

Json whole(const std::vector<ChoiceDelta>& deltas, int64_t tokens = 10) {
  const auto maker = builder();
  for (const ChoiceDelta& each : deltas) maker->add(each);
  return json(maker->body({7, tokens, 2}));
}

std::vector<StreamEvent> stream(ResponseBuilder& maker, const std::vector<ChoiceDelta>& deltas) {
  std::vector<StreamEvent> events;
  for (const ChoiceDelta& each : deltas) {
    for (StreamEvent& event : maker.events(each, {7, 1, 2})) events.push_back(std::move(event));
  }
  for (StreamEvent& event : maker.last_events({7, 10, 2})) events.push_back(std::move(event));
  return events;
}

TEST(MessagesBody, HasBlocksOfAllKinds) {
  auto maker = builder();
  for (const ChoiceDelta& each : everything()) maker->add(each);
  EXPECT_EQ(maker->body({7, 10, 2}),
            R"({"id":"msg_1","type":"message","role":"assistant","model":"tiny","content":[)"
            R"({"type":"thinking","thinking":"hmm","signature":"msg_1"},{"type":"text","text":"hello"},)"
            R"({"type":"tool_use","id":"call_0","name":"add","input":{"a":1}},)"
            R"({"type":"tool_use","id":"call_1","name":"sub","input":{}}],)"
            R"("stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,)"
            R"("cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":10}})");
}

TEST(MessagesBody, StopReasons) {
  EXPECT_EQ(whole({delta("c:a", Finish::kStop)})["stop_reason"], "end_turn");
  EXPECT_EQ(whole({delta("c:a", Finish::kLength)})["stop_reason"], "max_tokens");
  EXPECT_EQ(whole({delta("c:a", Finish::kLength)}, 9)["stop_reason"], "model_context_window_exceeded");
  ChoiceDelta stopped = delta("c:a", Finish::kStop);
  stopped.stop_reason = std::string("END");
  const Json message = whole({stopped});
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], "END");
}

TEST(MessagesBody, AnAnswerOfNothingHasNoBlocks) {
  EXPECT_EQ(whole({delta("", Finish::kStop)})["content"], Json::array());
}

TEST(MessagesBody, ArgumentsThatWereCutStayVisible) {
  const Json message = whole({delta("t:add"), delta("a:{\"a\":"), delta("", Finish::kLength)});
  EXPECT_EQ(message["content"][0]["input"], (Json{{"INVALID_JSON", "{\"a\":"}}));
}

TEST(MessagesBody, OmittedThinkingIsSignedAllTheSame) {
  const auto maker = builder(true);
  for (const ChoiceDelta& each : everything()) maker->add(each);
  EXPECT_EQ(json(maker->body({}))["content"][0],
            (Json{{"type", "thinking"}, {"thinking", ""}, {"signature", "msg_1"}}));
}

TEST(MessagesEvents, ComeInTheOrderOfTheReference) {
  const auto maker = builder();
  std::string seen;
  for (const StreamEvent& event : stream(*maker, everything())) {
    const Json data = json(event.data);
    EXPECT_EQ(data["type"], event.name);
    seen += event.name;
    if (data.contains("index")) seen += " " + std::to_string(data["index"].get<int>());
    if (event.name == "content_block_start") seen += " " + data["content_block"]["type"].get<std::string>();
    if (event.name == "content_block_delta") seen += " " + data["delta"]["type"].get<std::string>();
    seen += "\n";
  }
  EXPECT_EQ(seen,
            "message_start\nping\n"
            "content_block_start 0 thinking\ncontent_block_delta 0 thinking_delta\n"
            "content_block_delta 0 thinking_delta\ncontent_block_delta 0 signature_delta\n"
            "content_block_stop 0\n"
            "content_block_start 1 text\ncontent_block_delta 1 text_delta\ncontent_block_delta 1 text_delta\n"
            "content_block_stop 1\n"
            "content_block_start 2 tool_use\ncontent_block_delta 2 input_json_delta\n"
            "content_block_delta 2 input_json_delta\ncontent_block_stop 2\n"
            "content_block_start 3 tool_use\ncontent_block_stop 3\n"
            "message_delta\nmessage_stop\n");
}

TEST(MessagesEvents, SayWhatTheWholeSays) {
  const auto maker = builder();
  const Json message = whole(everything());
  Json blocks = Json::array();
  std::string input;
  for (const StreamEvent& event : stream(*maker, everything())) {
    const Json data = json(event.data);
    if (event.name == "message_start") {
      EXPECT_EQ(data["message"]["usage"]["input_tokens"], message["usage"]["input_tokens"]);
      EXPECT_EQ(data["message"]["content"], Json::array());
      EXPECT_EQ(data["message"]["stop_reason"], nullptr);
    } else if (event.name == "content_block_start") {
      blocks.push_back(data["content_block"]);
      input.clear();
    } else if (event.name == "content_block_delta") {
      for (const auto& [key, value] : data["delta"].items()) {
        if (key == "partial_json") {
          input += value.get<std::string>();
        } else if (key != "type") {
          blocks.back()[key] = blocks.back()[key].get<std::string>() + value.get<std::string>();
        }
      }
    } else if (event.name == "content_block_stop" && !input.empty()) {
      blocks.back()["input"] = json(input);
    } else if (event.name == "message_delta") {
      EXPECT_EQ(data["delta"]["stop_reason"], message["stop_reason"]);
      EXPECT_EQ(data["usage"], message["usage"]);
    }
  }
  EXPECT_EQ(blocks, message["content"]);
}

TEST(MessagesErrors, HaveTheTypesOfTheReference) {
  const auto maker = builder();
  const auto events = maker->error_events({"it broke", "server_error", "", ""});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "error");
  EXPECT_EQ(events[0].data,
            R"({"type":"error","error":{"type":"api_error","message":"it broke","param":null}})");
  EXPECT_EQ(json(maker->error_events({"late", "timeout", "", ""})[0].data)["error"]["type"], "timeout_error");
  const std::vector<std::pair<int, const char*>> table = {
      {400, "invalid_request_error"}, {404, "not_found_error"},
      {413, "request_too_large"},     {500, "api_error"},
      {501, "invalid_request_error"}, {503, "overloaded_error"},
      {504, "timeout_error"}};
  for (const auto& [status, type] : table) {
    EXPECT_EQ(json(messages_error_json(status, {"m", "t", "p", ""}))["error"],
              (Json{{"type", type}, {"message", "m"}, {"param", "p"}}));
  }
}

}  // namespace
}  // namespace pagoda::openai
