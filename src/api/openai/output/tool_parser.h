// Finds tool calls in the text of an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai/output/output_format.h"
#include "api/openai/output/part_list.h"
#include "api/openai/output/text_window.h"

namespace pagoda::openai {

// One policy for all formats. A marker counts wherever it stands, in a code fence too. A call exists once its
// name is certain; what does not become a call is content, markup included. Text that breaks off inside
// arguments leaves the call with what it has: it is not whole, and what breaks it is content. Formats without
// markers have calls at the start of the answer only, and only of functions that the request has.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  void push(std::string_view text, PartList* parts);
  void finish(PartList* parts);

 protected:
  ToolParser(const ToolSyntax& syntax, std::vector<ToolSpec> tools);

  enum class Progress : uint8_t { kOn, kWait, kBroken };
  // One step behind a marker. kWait: more text is needed; kBroken: it is no call.
  virtual Progress step_call(PartList* parts) = 0;
  // Forgets a call that broke.
  virtual void reset() = 0;

  // The marker that was found; empty once a call exists.
  std::string_view marker() const { return std::string_view(text_).substr(0, marker_); }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  void advance(size_t bytes) { at_ += bytes; }
  // What lies in front is part of a call that exists: it can't become content any more.
  void commit();
  // Back to content, behind `at_`.
  void leave();
  // White space and `literal`; both are skipped if it matches. Decided when ended_.
  Match skip_literal(std::string_view literal);
  void skip_space();
  // The text in front of `literal`; both are skipped. nullopt: `why`; broken when longer than `limit`.
  std::optional<std::string> skip_to(std::string_view literal, size_t limit, Progress* why);
  // A name that could be one, known where that is needed.
  bool accepts_name(std::string_view name) const;
  const ToolSpec* find_tool(std::string_view name) const;

  const ToolSyntax syntax_;
  const std::vector<ToolSpec> tools_;
  bool ended_ = false;

 private:
  bool step(PartList* parts);
  bool step_text(PartList* parts);
  bool step_start(PartList* parts);
  void fall_back(PartList* parts);

  enum class State : uint8_t { kStart, kText, kCall };
  State state_;
  std::vector<std::string> begins_;
  std::string text_;
  size_t at_ = 0;      // in text_, while in a call
  size_t marker_ = 0;  // bytes of the marker at the front of text_
};

std::unique_ptr<ToolParser> make_tool_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools);

// One for each style; used by make_tool_parser().
std::unique_ptr<ToolParser> make_json_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools);
std::unique_ptr<ToolParser> make_tagged_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools);
std::unique_ptr<ToolParser> make_pythonic_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools);

}  // namespace pagoda::openai
