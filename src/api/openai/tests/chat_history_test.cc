#include "api/openai/chat_history.h"

#include <gtest/gtest.h>

namespace pagoda::openai {
namespace {

std::string normalised(const std::string& messages, const HistoryShape& shape = {}) {
  Json json = *parse_json(messages);
  const auto done = normalise_history(json, shape);
  return done ? dump_json(json) : "error at " + done.error().param;
}

std::string call(const std::string& arguments) {
  return R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_1",)"
         R"("type":"function","function":{"name":"f","arguments":)" +
         arguments + "}}]}]";
}

// CASES B041.
TEST(ChatHistory, ArgumentsAsTheTemplateWants) {
  const HistoryShape as_string{.string_arguments = true};
  for (const std::string text : {R"("{\"city\":\"Paris\"}")", R"({"city":"Paris"})"}) {
    EXPECT_EQ(normalised(call(text)), call(R"({"city":"Paris"})"));
    EXPECT_EQ(normalised(call(text), as_string), call(R"("{\"city\":\"Paris\"}")"));
  }
  for (const std::string none : {"\"\"", "null"}) {
    EXPECT_EQ(normalised(call(none)), call("{}"));
    EXPECT_EQ(normalised(call(none), as_string), call("\"{}\""));
  }
  for (const std::string wrong : {R"("[1]")", R"("{")", "5", "[1]", R"("text")"}) {
    EXPECT_EQ(normalised(call(wrong)), "error at messages[0].tool_calls") << wrong;
  }
}

TEST(ChatHistory, OlderNames) {
  EXPECT_EQ(normalised(R"([{"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}},
                          {"role":"function","name":"f","content":"r"}])"),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function",)"
            R"("function":{"name":"f","arguments":{}}}]},)"
            R"({"role":"tool","name":"f","content":"r","tool_call_id":"call00001"}])");
  EXPECT_EQ(normalised(R"([{"role":"assistant","content":"","tool_calls":[],"reasoning":"r"}])"),
            R"([{"role":"assistant","content":"","reasoning":"r","reasoning_content":"r"}])");
}

TEST(ChatHistory, NullContentAndShortIds) {
  const std::string history =
      R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_abcdefghijkl","type":"function",)"
      R"("function":{"name":"f","arguments":{}}}]},)"
      R"({"role":"tool","content":"r","tool_call_id":"call_abcdefghijkl"}])";
  const Json json = *parse_json(normalised(history, {.null_content = true, .short_ids = true}));
  EXPECT_TRUE(json[0]["content"].is_null());
  const std::string id = json[0]["tool_calls"][0]["id"];
  EXPECT_EQ(id.size(), 9u);
  EXPECT_EQ(json[1]["tool_call_id"], id);
}

TEST(ChatHistory, WrongCalls) {
  for (const char* calls : {"5", "{}", "[5]", "[{}]", R"([{"function":5}])", R"([{"function":{}}])",
                            R"([{"function":{"name":5}}])"}) {
    EXPECT_EQ(normalised(std::string(R"([{"role":"assistant","content":"","tool_calls":)") + calls + "}]"),
              "error at messages[0].tool_calls")
        << calls;
  }
}

// The shapes that the golden templates and CASES B041's T1 to T3 need, as functions in place of templates.
TEST(ChatHistory, Probe) {
  using Render = std::function<std::string(const Json& message, const Json& function)>;
  const auto probe = [](const Render& render) {
    return probe_history([&](const std::string& context) -> Result<std::string> {
      const Json json = *parse_json(context);
      const Json& message = json["messages"][1];
      const std::string text = render(message, message["tool_calls"][0]["function"]);
      if (text == "error") return make_error(ErrorKind::kInvalidArgument, "wrong type");
      return text;
    });
  };
  const auto name = [](const Json& function) { return function["name"].get<std::string>(); };
  const HistoryShape dumped =
      probe([&](const Json&, const Json& f) { return name(f) + dump_json(f["arguments"]); });
  EXPECT_FALSE(dumped.string_arguments);
  EXPECT_FALSE(dumped.null_content);
  const HistoryShape joined = probe([&](const Json&, const Json& f) {
    return f["arguments"].is_string() ? name(f) + f["arguments"].get<std::string>() : "error";
  });
  EXPECT_TRUE(joined.string_arguments);
  const HistoryShape printed = probe([&](const Json&, const Json& f) {
    return name(f) + (f["arguments"].is_string() ? f["arguments"].get<std::string>()
                                                 : "{'pagoda_key': 'pagoda_value'}");
  });
  EXPECT_TRUE(printed.string_arguments);
  const HistoryShape nulled = probe([&](const Json& m, const Json& f) {
    return m["content"].is_null() ? name(f) + dump_json(f["arguments"]) : m["content"].get<std::string>();
  });
  EXPECT_TRUE(nulled.null_content);
  EXPECT_FALSE(nulled.string_arguments);
  const HistoryShape none = probe([](const Json&, const Json&) { return "no calls"; });
  EXPECT_FALSE(none.string_arguments || none.null_content);
}

}  // namespace
}  // namespace pagoda::openai
