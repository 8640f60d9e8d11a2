#include "api/openai/responses_response.h"

#include <gtest/gtest.h>

#include "api/openai/tests/scripted_parser.h"

namespace pagoda::openai {
namespace {

std::unique_ptr<ResponseBuilder> builder(bool logprobs = false) {
  ResponseOptions options;
  options.id = "resp_1";
  options.created = 7;
  options.model = "tiny";
  if (logprobs) options.logprobs = 0;
  return make_responses_builder(std::move(options), {{"store", false}}, std::make_unique<ScriptedParser>());
}

// A delta of as many tokens as `tokens` says.
ChoiceDelta delta(std::string text, Finish finish = Finish::kNone, size_t tokens = 1) {
  return {.text = std::move(text), .ids = std::vector<TokenId>(tokens, TokenId{1}), .finish = finish};
}

Json json(const std::string& text) {
  return std::move(*parse_json(text));
}

const std::vector<ChoiceDelta>& everything() {
  static const std::vector<ChoiceDelta> deltas = {delta("r:hm", Finish::kNone, 3),
                                                  delta("r:m"),
                                                  delta("c:he"),
                                                  delta("c:llo"),
                                                  delta("t:add"),
                                                  delta("a:{\"a\":"),
                                                  delta("a:1}"),
                                                  delta("t:sub"),
                                                  delta("", Finish::kStop, 0)};
  return deltas;
}

Json whole(const std::vector<ChoiceDelta>& deltas) {
  const auto maker = builder();
  for (const ChoiceDelta& each : deltas) maker->add(each);
  return json(maker->body({3, 10, 2}));
}

std::vector<StreamEvent> stream(ResponseBuilder& maker, const std::vector<ChoiceDelta>& deltas) {
  std::vector<StreamEvent> events;
  for (const ChoiceDelta& each : deltas) {
    for (StreamEvent& event : maker.events(each, {3, 1, 2})) events.push_back(std::move(event));
  }
  for (StreamEvent& event : maker.last_events({3, 10, 2})) events.push_back(std::move(event));
  return events;
}

TEST(ResponsesBody, HasItemsOfAllKinds) {
  const Json response = whole(everything());
  EXPECT_EQ(response["id"], "resp_1");
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["created_at"], 7);
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["incomplete_details"], nullptr);
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(dump_json(response["output"]),
            R"([{"id":"rs_1_0","type":"reasoning","status":"completed","summary":[],)"
            R"("content":[{"type":"reasoning_text","text":"hmm"}]},)"
            R"({"id":"msg_1_1","type":"message","status":"completed","role":"assistant",)"
            R"("content":[{"type":"output_text","text":"hello","annotations":[],"logprobs":[]}]},)"
            R"({"id":"fc_1_2","type":"function_call","status":"completed","call_id":"call_0","name":"add",)"
            R"("arguments":"{\"a\":1}"},)"
            R"({"id":"fc_1_3","type":"function_call","status":"completed","call_id":"call_1","name":"sub",)"
            R"("arguments":""}])");
  EXPECT_EQ(dump_json(response["usage"]),
            R"({"input_tokens":3,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":0},)"
            R"("output_tokens":10,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":13})");
}

TEST(ResponsesBody, AnAnswerOfNothingIsAnEmptyMessage) {
  const Json response = whole({delta("", Finish::kStop, 0)});
  ASSERT_EQ(response["output"].size(), 1u);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesBody, TheItemThatWasCutIsIncomplete) {
  const Json response = whole({delta("r:hm"), delta("c:he", Finish::kLength)});
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"], (Json{{"reason", "max_output_tokens"}}));
  EXPECT_EQ(response["output"][0]["status"], "completed");
  EXPECT_EQ(response["output"][1]["status"], "incomplete");
}

// Text that was held back as a possible call is content after all.
TEST(ResponsesBody, HeldBackTextIsNotLost) {
  const Json response = whole({delta("c:a"), delta("<to"), delta("", Finish::kStop, 0)});
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "a<to");
}

TEST(ResponsesEvents, ComeInTheOrderOfTheReference) {
  const auto maker = builder();
  std::vector<std::string> names;
  int64_t number = 0;
  for (const StreamEvent& event : stream(*maker, everything())) {
    const Json data = json(event.data);
    EXPECT_EQ(data["type"], event.name);
    EXPECT_EQ(data["sequence_number"], number++);
    names.push_back(event.name.substr(event.name.find('.') + 1));
  }
  const std::vector<std::string> expected = {
      // reasoning
      "created", "in_progress", "output_item.added", "content_part.added", "reasoning_text.delta",
      "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done",
      // message
      "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done",
      "content_part.done", "output_item.done",
      // calls
      "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
      "function_call_arguments.done", "output_item.done", "output_item.added", "function_call_arguments.done",
      "output_item.done", "completed"};
  EXPECT_EQ(names, expected);
}

TEST(ResponsesEvents, SayWhatTheWholeSays) {
  for (std::vector<ChoiceDelta> deltas :
       {everything(), {delta("c:x", Finish::kLength)}, {delta("x", Finish::kStop)}}) {
    const auto maker = builder();
    const auto events = stream(*maker, deltas);
    const Json response = whole(deltas);
    EXPECT_EQ(json(events.back().data)["response"], response);
    Json items = Json::array();
    std::map<std::string, std::string> joined;
    for (const StreamEvent& event : events) {
      const Json data = json(event.data);
      if (event.name == "response.output_item.done") {
        EXPECT_EQ(data["output_index"], items.size());
        items.push_back(data["item"]);
      }
      if (event.name.ends_with(".delta")) {
        EXPECT_EQ(data["output_index"], items.size());
        joined[data["item_id"]] += data["delta"].get<std::string>();
      }
    }
    EXPECT_EQ(items, response["output"]);
    for (const Json& item : items) {
      const bool call = item["type"] == "function_call";
      EXPECT_EQ(joined[item["id"]], call ? item["arguments"] : item["content"][0]["text"]);
    }
  }
}

TEST(ResponsesEvents, AnErrorEndsTheStream) {
  const auto maker = builder();
  (void)maker->events(delta("c:he"), {3, 1, 0});
  const auto events = maker->error_events({"it broke", "server_error", "", ""});
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(
      events[0].data,
      R"({"type":"error","sequence_number":5,"code":"server_error","message":"it broke","param":null})");
  const Json failed = json(events[1].data);
  EXPECT_EQ(events[1].name, "response.failed");
  EXPECT_EQ(failed["response"]["status"], "failed");
  EXPECT_EQ(failed["response"]["error"], (Json{{"code", "server_error"}, {"message", "it broke"}}));
  EXPECT_EQ(failed["response"]["output"][0]["content"][0]["text"], "he");
}

// Scores of reasoning and calls are not shown; those of held-back text come with the text.
TEST(ResponsesLogprobs, AreThoseOfTheText) {
  const auto scored = [](std::string text, const char* token, Finish finish = Finish::kNone) {
    ChoiceDelta result = delta(std::move(text), finish);
    result.scores = {{{TokenId{1}, token, -0.5}, 1, {}}};
    return result;
  };
  const std::vector<ChoiceDelta> deltas = {scored("r:hm", "hm"), scored("", "<"), scored("c:a", "a"),
                                           scored("", "S", Finish::kStop)};
  const auto maker = builder(true);
  for (const ChoiceDelta& each : deltas) maker->add(each);
  const Json response = json(maker->body({}));
  std::string tokens;
  for (const Json& entry : response["output"][1]["content"][0]["logprobs"])
    tokens += entry["token"].get<std::string>();
  EXPECT_EQ(tokens, "<aS");
  const auto streaming = builder(true);
  std::string streamed;
  for (const StreamEvent& event : stream(*streaming, deltas)) {
    if (event.name != "response.output_text.delta") continue;
    const Json data = json(event.data);
    for (const Json& entry : data["logprobs"]) streamed += entry["token"].get<std::string>();
  }
  EXPECT_EQ(streamed, tokens);
}

}  // namespace
}  // namespace pagoda::openai
