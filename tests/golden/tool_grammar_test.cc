// Grammars that force tool calls: whatever they let pass, the output parser makes whole calls of it. Spans
// api/openai and text.
#include "api/openai/output/tool_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "api/openai/json_text.h"
#include "api/openai/output/output_parser.h"
#include "text/grammar.h"
#include "text/tests/tiny_tokenizers.h"

namespace pagoda {
namespace {

using openai::OutputParsing;

constexpr int32_t kEnd = 256;
constexpr int kMaxSteps = 4000;
constexpr size_t kFreeText = 150;  // bytes that may come next where anything may

// Values that random bytes come to an end in.
constexpr const char* kSchema =
    R"({"type":"object","properties":{"unit":{"type":"string","enum":["C","F"]},"days":{"type":"integer",)"
    R"("minimum":1,)"
    R"("maximum":99},"ok":{"type":"boolean"},"at":{"$ref":"#/$defs/point"},)"
    R"("s":{"type":"string","maxLength":4,)"
    R"("pattern":"^[a-z]*$"}},"required":["days","at"],"additionalProperties":false,"$defs":{"point":)"
    R"({"type":"object",)"
    R"("properties":{"x":{"type":"integer","minimum":0,"maximum":9}},"required":["x"],)"
    R"("additionalProperties":false}}})";
constexpr const char* kEmpty = R"({"type":"object","properties":{},"additionalProperties":false})";

// A vocabulary of bytes, an end, and the markers that models have as tokens of their own.
class Model {
 public:
  Model(const openai::OutputFormat& format, bool has_tokens)
      : closer_(format.tools.style == openai::CallStyle::kArgumentKeys ? "</arg_value>"
                                                                       : "\n</parameter>\n") {
    std::vector<text::AddedToken> added = {{"<|end|>"}};
    if (has_tokens) {
      for (const std::string& marker : format.markers()) {
        const bool is_token = marker.starts_with('<') && marker.ends_with('>');
        const auto same = [&](const text::AddedToken& token) { return token.content == marker; };
        const bool is_new = std::none_of(added.begin(), added.end(), same);
        if (is_new && (is_token || marker == "[TOOL_CALLS]" || marker == "[ARGS]")) added.push_back({marker});
      }
    }
    tokenizer_ = text::load_tokenizer(text::byte_tokenizer_json(added)).value();
    const std::vector<TokenId> ends = {TokenId{kEnd}};
    compiler_ = text::GrammarCompiler::create(*tokenizer_, tokenizer_->vocab_size(), ends).value();
  }

  void name_markers(openai::OutputFormat* format) const {
    for (const std::string& marker : format->markers()) {
      const auto id = tokenizer_->token_to_id(marker);
      if (id && tokenizer_->is_special(*id)) format->marker_tokens[marker] = *id;
    }
  }

  // A random text of the grammar; the end comes early, or only when nothing else may.
  std::string write(const std::string& grammar, uint64_t seed, bool ends_early = true) const {
    auto matcher = compiler_->compile(text::GrammarKind::kLark, grammar);
    EXPECT_TRUE(matcher.has_value()) << matcher.error().message << "\n" << grammar;
    if (!matcher) return {};
    std::mt19937_64 random(seed);
    std::string output;
    std::vector<uint32_t> mask((static_cast<size_t>(tokenizer_->vocab_size()) + 31) / 32);
    for (int step = 0; step < kMaxSteps; ++step) {
      EXPECT_TRUE(matcher->fill_mask(mask).has_value());
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
        if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      if (allowed.size() > kFreeText) {
        output += close_text(*matcher, allowed);
        continue;
      }
      const bool may_end = std::find(allowed.begin(), allowed.end(), kEnd) != allowed.end();
      if (may_end && !ends_early && allowed.size() > 1) std::erase(allowed, kEnd);
      const bool ends = may_end && ends_early && random() % 3 == 0;
      const int32_t id = ends ? kEnd : allowed[random() % allowed.size()];
      if (id == kEnd) break;
      output += tokenizer_->token_bytes(TokenId{id});
      if (matcher->accept(TokenId{id}).value()) break;
    }
    return output;
  }

  bool accepts(const std::string& grammar, const std::string& text) const {
    auto matcher = compiler_->compile(text::GrammarKind::kLark, grammar);
    EXPECT_TRUE(matcher.has_value()) << matcher.error().message << "\n" << grammar;
    std::vector<uint32_t> mask((static_cast<size_t>(tokenizer_->vocab_size()) + 31) / 32);
    const auto allows = [&](TokenId id) {
      EXPECT_TRUE(matcher->fill_mask(mask).has_value());
      return (mask[static_cast<size_t>(id.value) / 32] >> (id.value % 32) & 1) != 0;
    };
    bool complete = false;
    const std::vector<TokenId> ids = tokenizer_->encode(text, {.add_special_tokens = false}).value();
    for (const TokenId id : ids) {
      if (complete || !allows(id)) return false;
      complete = matcher->accept(id).value();
    }
    return complete || allows(TokenId{kEnd});
  }

 private:
  // A letter, then what ends free text in the formats that have it: a token, or the closing tag.
  std::string close_text(text::GrammarMatcher& matcher, const std::vector<int32_t>& allowed) const {
    std::string output = "x";
    EXPECT_TRUE(matcher.accept(TokenId{'x'}).has_value());
    const auto token = std::find_if(allowed.begin(), allowed.end(), [](int32_t id) { return id > kEnd; });
    if (token != allowed.end()) {
      EXPECT_TRUE(matcher.accept(TokenId{*token}).has_value());
      return output + tokenizer_->token_bytes(TokenId{*token});
    }
    for (const char c : closer_) EXPECT_TRUE(matcher.accept(TokenId{c}).has_value()) << closer_;
    return output + closer_;
  }

  std::string closer_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const text::GrammarCompiler> compiler_;
};

struct Calls {
  std::vector<std::string> names, arguments;
  std::string content;
  bool whole = false;
};

Calls parse(const OutputParsing& parsing, const std::string& text) {
  const auto parser = openai::make_output_parser(parsing);
  Calls calls;
  const auto take = [&](const std::vector<openai::OutputPart>& parts) {
    for (const openai::OutputPart& part : parts) {
      if (const auto* content = std::get_if<openai::ContentText>(&part)) calls.content += content->text;
      if (const auto* begin = std::get_if<openai::ToolCallBegin>(&part)) {
        calls.names.push_back(begin->name);
        calls.arguments.emplace_back();
      }
      if (const auto* piece = std::get_if<openai::ToolArguments>(&part))
        calls.arguments.back() += piece->text;
    }
  };
  take(parser->push(text));
  take(parser->finish());
  calls.whole = parser->made_tool_calls();
  return calls;
}

TEST(AnswerGrammarTest, ReasoningAndCallsBesideJson) {
  auto format = openai::choose_output_format("", "hermes", "qwen3").value();
  const Model model(format, true);
  model.name_markers(&format);
  OutputParsing parsing;
  parsing.format = std::make_shared<const openai::OutputFormat>(format);
  parsing.reasoning = true;
  parsing.tool_specs = {{"now", kEmpty}};
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const auto accepts = [&](const std::string& text) {
    return model.accepts(openai::answer_grammar(parsing, schema), text);
  };
  EXPECT_TRUE(accepts(R"({"a":1})"));
  EXPECT_TRUE(accepts("<think>hm { </think>\n\n{\"a\":1}"));
  EXPECT_FALSE(accepts("hm</think>{\"a\":1}"));
  EXPECT_FALSE(accepts("text"));
  EXPECT_FALSE(accepts(call));
  parsing.tools = true;
  EXPECT_TRUE(accepts(call));
  EXPECT_TRUE(accepts("<think>hm</think>\n" + call));
  EXPECT_FALSE(accepts(call + R"({"a":1})"));
  EXPECT_TRUE(model.accepts(openai::tool_grammar(parsing), call + "\n" + call));
  EXPECT_FALSE(model.accepts(openai::tool_grammar(parsing), R"({"a":1})"));
  parsing.starts_in_reasoning = true;
  EXPECT_TRUE(accepts("hm</think>{\"a\":1}"));
  EXPECT_FALSE(accepts(R"({"a":1})"));
  EXPECT_TRUE(model.accepts(openai::tool_grammar(parsing), "hm</think>\n\n" + call));
}

class ToolGrammarTest : public testing::TestWithParam<const char*> {
 protected:
  static OutputParsing parsing(openai::OutputFormat format) {
    OutputParsing result;
    result.format = std::make_shared<const openai::OutputFormat>(std::move(format));
    result.tools = true;
    result.tool_specs = {{"get_weather", kSchema}, {"now", kEmpty}};
    return result;
  }
};

TEST_P(ToolGrammarTest, WhateverItLetsPassIsWholeCalls) {
  for (const bool has_tokens : {false, true}) {
    auto format = openai::choose_output_format("", GetParam(), "none").value();
    const Model model(format, has_tokens);
    model.name_markers(&format);
    for (const bool one_call : {false, true}) {
      OutputParsing wanted = parsing(format);
      wanted.one_call = one_call;
      const std::string grammar = openai::tool_grammar(wanted);
      wanted.one_call = false;  // the grammar alone must see to it
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const std::string text = model.write(grammar, seed);
        const Calls calls = parse(wanted, text);
        ASSERT_TRUE(calls.whole) << GetParam() << ": " << text << "\n" << grammar;
        EXPECT_EQ(calls.content, "") << text;
        if (one_call) {
          EXPECT_EQ(calls.names.size(), 1u) << text;
        }
        for (size_t i = 0; i < calls.names.size(); ++i) {
          const auto arguments = openai::parse_json(calls.arguments[i]);
          ASSERT_TRUE(arguments && arguments->is_object()) << text;
          if (calls.names[i] == "now") {
            EXPECT_TRUE(arguments->empty()) << text;
            continue;
          }
          ASSERT_EQ(calls.names[i], "get_weather") << text;
          EXPECT_TRUE((*arguments)["days"].is_number_integer()) << text;
          EXPECT_TRUE((*arguments)["at"]["x"].is_number_integer()) << text;
        }
      }
    }
  }
}

TEST_P(ToolGrammarTest, CallsComeToAnEnd) {
  auto format = openai::choose_output_format("", GetParam(), "none").value();
  const Model model(format, true);
  model.name_markers(&format);
  const OutputParsing wanted = parsing(format);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const std::string text = model.write(openai::tool_grammar(wanted), seed, /*ends_early=*/false);
    const Calls calls = parse(wanted, text);
    ASSERT_TRUE(calls.whole) << text;
    EXPECT_LE(calls.names.size(), 16u) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ToolGrammarTest,
                         testing::Values("hermes", "json", "llama3_json", "mistral", "deepseek_v3",
                                         "deepseek_v31", "kimi_k2", "granite", "phi4_mini_json", "command_r",
                                         "command_r7b", "minimax", "apertus", "functionary", "pythonic",
                                         "lfm2", "qwen3_coder", "seed_oss", "glm45"),
                         [](const auto& format) { return std::string(format.param); });

}  // namespace
}  // namespace pagoda
