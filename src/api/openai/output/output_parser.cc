#include "api/openai/output/output_parser.h"

#include <optional>
#include <utility>

#include "api/openai/output/output_format.h"
#include "api/openai/output/part_list.h"
#include "api/openai/output/reasoning_splitter.h"
#include "api/openai/output/tool_parser.h"

namespace pagoda::openai {
namespace {

class Parser final : public OutputParser {
 public:
  explicit Parser(const OutputParsing& parsing)
      : include_reasoning_(parsing.include_reasoning),
        parts_(parsing.tools, parsing.one_call,
               parsing.format != nullptr && parsing.format->tools.short_ids) {
    if (parsing.format == nullptr) return;
    const ReasoningSyntax* reasoning = parsing.format->reasoning_syntax();
    if (parsing.reasoning && reasoning != nullptr) splitter_.emplace(*reasoning, parsing.starts_in_reasoning);
    if (parsing.tools) tools_ = make_tool_parser(parsing.format->tools, parsing.tool_specs);
  }

  std::vector<OutputPart> push(std::string_view text) override {
    if (splitter_) {
      add(splitter_->push(text));
    } else {
      add_answer(text);
    }
    return parts_.take();
  }

  std::vector<OutputPart> finish() override {
    if (splitter_) add(splitter_->finish());
    if (tools_ != nullptr) tools_->finish(&parts_);
    parts_.finish();
    return parts_.take();
  }

  bool made_tool_calls() const override { return parts_.all_calls_whole(); }

 private:
  void add(const ReasoningSplitter::Output& output) {
    if (include_reasoning_) parts_.reasoning(output.reasoning);
    add_answer(output.rest);
  }
  void add_answer(std::string_view text) {
    if (text.empty()) return;
    if (tools_ != nullptr) return tools_->push(text, &parts_);
    parts_.content(text);
  }

  const bool include_reasoning_;
  PartList parts_;
  std::optional<ReasoningSplitter> splitter_;
  std::unique_ptr<ToolParser> tools_;
};

}  // namespace

std::unique_ptr<OutputParser> make_output_parser(const OutputParsing& parsing) {
  return std::make_unique<Parser>(parsing);
}

}  // namespace pagoda::openai
