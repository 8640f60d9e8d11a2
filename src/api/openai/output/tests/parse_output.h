// A text parsed whole and in pieces, with parts that can be compared.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/openai/output/output_format.h"
#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

struct ParsedCall {
  std::string name, arguments;
  bool operator==(const ParsedCall&) const = default;
};

struct ParsedOutput {
  std::string content, reasoning;
  std::vector<ParsedCall> calls;
  std::vector<std::string> ids;
  bool made_calls = false;
};

inline void collect(const std::vector<OutputPart>& parts, ParsedOutput* output) {
  for (const OutputPart& part : parts) {
    if (const auto* content = std::get_if<ContentText>(&part)) {
      EXPECT_FALSE(content->text.empty());
      output->content += content->text;
    } else if (const auto* reasoning = std::get_if<ReasoningText>(&part)) {
      EXPECT_FALSE(reasoning->text.empty());
      output->reasoning += reasoning->text;
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&part)) {
      EXPECT_EQ(static_cast<size_t>(begin->index), output->calls.size());
      output->calls.push_back({begin->name, ""});
      output->ids.push_back(begin->id);
    } else {
      const auto& arguments = std::get<ToolArguments>(part);
      EXPECT_FALSE(arguments.text.empty());
      ASSERT_EQ(static_cast<size_t>(arguments.index + 1), output->calls.size());
      output->calls.back().arguments += arguments.text;
    }
  }
}

inline ParsedOutput parse_pieces(const OutputParsing& parsing, const std::vector<std::string>& pieces) {
  const auto parser = make_output_parser(parsing);
  ParsedOutput output;
  for (const std::string& piece : pieces) collect(parser->push(piece), &output);
  collect(parser->finish(), &output);
  output.made_calls = parser->made_tool_calls();
  return output;
}

inline void expect_same(const ParsedOutput& a, const ParsedOutput& b, const std::string& how) {
  EXPECT_EQ(a.content, b.content) << how;
  EXPECT_EQ(a.reasoning, b.reasoning) << how;
  EXPECT_EQ(a.calls, b.calls) << how;
  EXPECT_EQ(a.made_calls, b.made_calls) << how;
}

// Whole, cut in two at every byte, and byte by byte: always the same.
inline ParsedOutput parse_output(const OutputParsing& parsing, const std::string& text) {
  const ParsedOutput whole = parse_pieces(parsing, {text});
  for (size_t cut = 1; cut < text.size(); ++cut) {
    expect_same(whole, parse_pieces(parsing, {text.substr(0, cut), text.substr(cut)}),
                "cut at " + std::to_string(cut) + " of " + text);
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  expect_same(whole, parse_pieces(parsing, bytes), "byte by byte: " + text);
  return whole;
}

// Parsing of a request with the tools f, get_weather and write, for a format by name.
inline OutputParsing parsing_for(const std::string& tool_parser,
                                 const std::string& reasoning_parser = "none") {
  OutputParsing parsing;
  auto format = choose_output_format("", tool_parser, reasoning_parser);
  EXPECT_TRUE(format.has_value());
  parsing.format = std::make_shared<const OutputFormat>(*format);
  parsing.tools = tool_parser != "none";
  parsing.reasoning = reasoning_parser != "none";
  parsing.tool_specs = {
      {"f", R"({"type":"object","properties":{"a":{"type":"integer"}}})"},
      {"get_weather", R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
        "metric":{"type":"boolean"},"tags":{"type":"array"},
        "at":{"anyOf":[{"type":"string"},{"type":"null"}]}}})"},
      {"now", R"({"type":"object","properties":{}})"}};
  return parsing;
}

}  // namespace pagoda::openai
