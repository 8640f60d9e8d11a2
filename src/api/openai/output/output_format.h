// How a model marks reasoning and tool calls in its text. Found in the text of its chat template, or named by
// --tool-call-parser and --reasoning-parser.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace pagoda::openai {

enum class CallStyle : uint8_t {
  kJson,           // {"name": ..., "arguments": {...}}, alone or in a list
  kNamedJson,      // name and arguments apart: f[ARGS]{...}
  kXmlParameters,  // <function=f><parameter=a>1</parameter></function>
  kArgumentKeys,   // f<arg_key>a</arg_key><arg_value>1</arg_value>
  kPythonic,       // [f(a=1)]
  kNameKeyed,      // [{"f": {...}}]
};

// Markers may be empty where a format has none.
struct ToolSyntax {
  std::string name;  // vLLM's
  CallStyle style = CallStyle::kJson;
  std::vector<std::string>
      begins;         // text in front of calls, the usual one first; empty: calls stand at the start
  std::string end;    // behind them
  bool list = false;  // kJson: the calls are a JSON list
  std::string arguments_key = "arguments", name_key = "name";  // kJson: what a grammar writes
  std::string fence, fence_end;                                // around the JSON ("```json", "```")
  std::string section_begin, section_end;                      // kNamedJson: around all calls
  std::string name_begin;  // kNamedJson: behind `begins` and a word that says the kind of call
  std::string name_end;    // kNamedJson: between name and arguments
  bool short_ids = false;  // of nine letters and digits
};

struct ReasoningSyntax {
  std::string name;  // vLLM's
  std::string begin, end;
  // Text up to `end` is reasoning even where neither prompt nor output has `begin`.
  bool implied = false;
  // Around the answer behind the reasoning; dropped.
  std::string answer_begin, answer_end;
};

struct OutputFormat {
  ToolSyntax tools;
  bool tools_known = false;                // found in the template or named; else `tools` is plain JSON
  bool parse_tools = true;                 // false: --tool-call-parser none
  std::vector<ReasoningSyntax> reasoning;  // none or one
  // Markers that are single tokens which a grammar names by id.
  std::map<std::string, TokenId> marker_tokens;
  // Those that the detokenizer would hide; their text must reach the parser.
  std::vector<TokenId> hidden_markers;

  const ReasoningSyntax* reasoning_syntax() const { return reasoning.empty() ? nullptr : &reasoning.front(); }
  // All that a parser looks for.
  std::vector<std::string> markers() const;
};

// Empty parser names: from the template. "none": off. kInvalidArgument for an unknown one, with the known
// ones.
Result<OutputFormat> choose_output_format(std::string_view chat_template, std::string_view tool_parser,
                                          std::string_view reasoning_parser);

// The model goes on inside reasoning: behind a rendered prompt with its generation prompt, or behind the
// message that it continues.
bool prompt_opens_reasoning(const OutputFormat& format, std::string_view prompt);
bool message_ends_in_reasoning(const OutputFormat& format, std::string_view message);

}  // namespace pagoda::openai
