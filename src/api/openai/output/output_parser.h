// From the text that a model writes to what an answer shows: content, reasoning and tool calls. One parser
// for whole answers and streams: however the text is cut into pieces, the parts joined are the same.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pagoda::openai {

struct ContentText {
  std::string text;
};
struct ReasoningText {
  std::string text;
};
// A call begins as soon as its name is certain. Indexes are 0, 1, 2, ... within a choice; ids are unique.
struct ToolCallBegin {
  int index = 0;
  std::string id, name;
};
// A piece of the arguments of call `index`, JSON text. Pieces of a call come after its beginning and before
// the next call's; joined they are a JSON object unless the output ended or broke inside.
struct ToolArguments {
  int index = 0;
  std::string text;
};
using OutputPart = std::variant<ContentText, ReasoningText, ToolCallBegin, ToolArguments>;

// Of one choice. Not thread-safe.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  // What is certain with this text; empty while all of it may still become markup. No part is empty text, and
  // neighbours of the same kind are one part.
  virtual std::vector<OutputPart> push(std::string_view text) = 0;
  // Once, at the end of the choice: markup that never became a call is content.
  virtual std::vector<OutputPart> finish() = 0;
  // After finish(): there are calls and all of them are whole. An answer that ended by itself then has the
  // finish reason tool_calls; one that was cut by a limit keeps "length".
  virtual bool made_tool_calls() const = 0;
};

struct OutputFormat;  // output_format.h

// A function that the model may call.
struct ToolSpec {
  std::string name;
  std::string parameters_json;  // the schema of its arguments, an object
};

// What the parser of a request's choices needs to know; part of a ChatRequest.
struct OutputParsing {
  std::shared_ptr<const OutputFormat> format;  // null: everything is content
  bool tools = false;                          // calls are looked for
  bool reasoning = false;                      // reasoning is split off
  bool starts_in_reasoning = false;            // the prompt has opened it
  bool include_reasoning = true;               // false: reasoning is parsed and dropped
  bool one_call = false;             // parallel_tool_calls is false: calls behind the first are dropped
  bool legacy_call = false;          // the request has functions: the answer has a function_call
  std::vector<ToolSpec> tool_specs;  // of the request
};

std::unique_ptr<OutputParser> make_output_parser(const OutputParsing& parsing);

}  // namespace pagoda::openai
