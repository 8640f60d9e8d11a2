// Calls whose arguments stand between tags, one by one: Qwen3-Coder's and GLM's.
#include <fmt/format.h>

#include <utility>

#include "api/openai/json_text.h"
#include "api/openai/output/argument_values.h"
#include "api/openai/output/tool_parser.h"

namespace pagoda::openai {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxValueBytes = size_t{64} << 20;
constexpr std::string_view kFunction = "<function=", kFunctionEnd = "</function>";

struct Tags {
  std::string_view key_begin, key_end, value_begin, value_end;
};
constexpr Tags kXmlTags{"<parameter=", ">", "", "</parameter>"};
constexpr Tags kKeyTags{"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};

class TaggedParser final : public ToolParser {
 public:
  TaggedParser(const ToolSyntax& syntax, std::vector<ToolSpec> tools)
      : ToolParser(syntax, std::move(tools)),
        is_xml_(syntax.style == CallStyle::kXmlParameters),
        tags_(is_xml_ ? kXmlTags : kKeyTags) {}

 private:
  enum class Phase : uint8_t { kOpen, kName, kArguments, kKey, kValueBegin, kValue, kEnd };

  void reset() override {
    phase_ = Phase::kOpen;
    any_ = false;
  }

  Progress step_call(PartList* parts) override {
    switch (phase_) {
      case Phase::kOpen:
        return open();
      case Phase::kName:
        return read_name(parts);
      case Phase::kArguments:
        return next_argument(parts);
      case Phase::kKey:
        return read_key();
      case Phase::kValueBegin:
        return enter_value();
      case Phase::kValue:
        return read_value(parts);
      case Phase::kEnd:
        break;
    }
    if (skip_literal(syntax_.end) == Match::kMore) return Progress::kWait;
    leave();
    return Progress::kOn;
  }

  Progress open() {
    if (is_xml_ && marker() != kFunction) {
      const Match match = skip_literal(kFunction);
      if (match != Match::kYes) return match == Match::kMore ? Progress::kWait : Progress::kBroken;
    }
    phase_ = Phase::kName;
    return Progress::kOn;
  }

  Progress read_name(PartList* parts) {
    std::string name;
    if (is_xml_) {
      Progress why = Progress::kBroken;
      const auto text = skip_to(">", kMaxNameBytes, &why);
      if (!text) return why;
      name = *text;
    } else {
      skip_space();
      const size_t end = rest().find_first_of("<\n");
      if (end == std::string_view::npos && rest().size() <= kMaxNameBytes) return Progress::kWait;
      name = rest().substr(0, std::min(end, rest().size()));
      advance(name.size());
      while (!name.empty() && is_json_space(name.back())) name.pop_back();
    }
    if (!accepts_name(name)) return Progress::kBroken;
    tool_ = find_tool(name);
    parts->begin_call(name);
    commit();
    phase_ = Phase::kArguments;
    return Progress::kOn;
  }

  Progress next_argument(PartList* parts) {
    const Match key = skip_literal(tags_.key_begin);
    if (key == Match::kYes) {
      phase_ = Phase::kKey;
      return Progress::kOn;
    }
    Match end = is_xml_ ? skip_literal(kFunctionEnd) : Match::kNo;
    const bool function_end = end == Match::kYes;
    // A model may forget </function>.
    if (end == Match::kNo) end = skip_literal(syntax_.end);
    if (end == Match::kYes) {
      parts->arguments(any_ ? "}" : "{}");
      parts->end_call();
      commit();
      if (function_end) {
        phase_ = Phase::kEnd;
      } else {
        leave();
      }
      return Progress::kOn;
    }
    return key == Match::kMore || end == Match::kMore ? Progress::kWait : Progress::kBroken;
  }

  Progress read_key() {
    Progress why = Progress::kBroken;
    const auto text = skip_to(tags_.key_end, kMaxNameBytes, &why);
    if (!text) return why;
    key_ = *text;
    phase_ = tags_.value_begin.empty() ? Phase::kValue : Phase::kValueBegin;
    return Progress::kOn;
  }

  Progress enter_value() {
    const Match match = skip_literal(tags_.value_begin);
    if (match != Match::kYes) return match == Match::kMore ? Progress::kWait : Progress::kBroken;
    phase_ = Phase::kValue;
    return Progress::kOn;
  }

  Progress read_value(PartList* parts) {
    Progress why = Progress::kBroken;
    auto text = skip_to(tags_.value_end, kMaxValueBytes, &why);
    if (!text) return why;
    if (is_xml_) {  // the line breaks around a value belong to the tags
      if (text->starts_with('\n')) text->erase(0, 1);
      if (text->ends_with('\n')) text->pop_back();
    }
    parts->arguments(fmt::format("{}{}: {}", std::exchange(any_, true) ? ", " : "{", dump_json(Json(key_)),
                                 argument_json(tool_, key_, *text)));
    commit();
    phase_ = Phase::kArguments;
    return Progress::kOn;
  }

  const bool is_xml_;
  const Tags tags_;
  Phase phase_ = Phase::kOpen;
  const ToolSpec* tool_ = nullptr;
  std::string key_;
  bool any_ = false;  // an argument was written
};

}  // namespace

std::unique_ptr<ToolParser> make_tagged_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools) {
  return std::make_unique<TaggedParser>(syntax, std::move(tools));
}

}  // namespace pagoda::openai
