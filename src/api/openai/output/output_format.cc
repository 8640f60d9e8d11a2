#include "api/openai/output/output_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace pagoda::openai {
namespace {

ToolSyntax json_syntax(std::string name, std::vector<std::string> begins, std::string end,
                       bool list = false) {
  ToolSyntax syntax;
  syntax.name = std::move(name);
  syntax.begins = std::move(begins);
  syntax.end = std::move(end);
  syntax.list = list;
  return syntax;
}

ToolSyntax command_syntax(std::string name, std::string begin, std::string end) {
  ToolSyntax syntax = json_syntax(std::move(name), {std::move(begin)}, std::move(end), true);
  syntax.name_key = "tool_name";
  syntax.arguments_key = "parameters";
  return syntax;
}

ToolSyntax named_syntax(std::string name, std::string begin, std::string name_end, std::string end) {
  ToolSyntax syntax = json_syntax(std::move(name), {std::move(begin)}, std::move(end));
  syntax.style = CallStyle::kNamedJson;
  syntax.name_end = std::move(name_end);
  return syntax;
}

ToolSyntax deepseek_syntax(std::string name, bool fenced) {
  ToolSyntax syntax =
      named_syntax(std::move(name), "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>");
  syntax.section_begin = "<｜tool▁calls▁begin｜>";
  syntax.section_end = "<｜tool▁calls▁end｜>";
  if (fenced) {
    syntax.name_begin = "<｜tool▁sep｜>";
    syntax.name_end = "\n";
    syntax.fence = "```json";
    syntax.fence_end = "```";
  }
  return syntax;
}

ToolSyntax styled(ToolSyntax syntax, CallStyle style) {
  syntax.style = style;
  return syntax;
}

ToolSyntax llama_syntax() {
  ToolSyntax syntax = json_syntax("llama3_json", {}, "");
  syntax.arguments_key = "parameters";
  return syntax;
}

ToolSyntax mistral_syntax(bool named) {
  ToolSyntax syntax = named ? named_syntax("mistral", "[TOOL_CALLS]", "[ARGS]", "")
                            : json_syntax("mistral", {"[TOOL_CALLS]"}, "", true);
  syntax.short_ids = true;
  return syntax;
}

ToolSyntax kimi_syntax() {
  ToolSyntax syntax =
      named_syntax("kimi_k2", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>");
  syntax.section_begin = "<|tool_calls_section_begin|>";
  syntax.section_end = "<|tool_calls_section_end|>";
  return syntax;
}

ToolSyntax action_syntax() {
  ToolSyntax syntax = command_syntax("command_r", "Action:", "");
  syntax.fence = "```json";
  syntax.fence_end = "```";
  return syntax;
}

// A format and the texts of a template that show it: all of them.
struct KnownTools {
  ToolSyntax syntax;
  std::vector<std::string_view> signs;  // none: by name only
};

// The first that fits counts, so formats whose signs others have too come late.
const std::vector<KnownTools>& known_tools() {
  using Style = CallStyle;
  static const std::vector<KnownTools> kTools = {
      {deepseek_syntax("deepseek_v3", true), {"<｜tool▁call▁begin｜>", "```json"}},
      {deepseek_syntax("deepseek_v31", false), {"<｜tool▁call▁begin｜>"}},
      {kimi_syntax(), {"<|tool_call_argument_begin|>"}},
      {mistral_syntax(true), {"[TOOL_CALLS]", "[ARGS]"}},
      {mistral_syntax(false), {"[TOOL_CALLS]"}},
      {styled(json_syntax("seed_oss", {"<seed:tool_call>"}, "</seed:tool_call>"), Style::kXmlParameters),
       {"<seed:tool_call>"}},
      {styled(json_syntax("qwen3_coder", {"<tool_call>", "<function="}, "</tool_call>"),
              Style::kXmlParameters),
       {"<tool_call>", "<function=", "<parameter="}},
      {styled(json_syntax("glm45", {"<tool_call>"}, "</tool_call>"), Style::kArgumentKeys), {"<arg_key>"}},
      {styled(json_syntax("apertus", {"<|tools_prefix|>"}, "<|tools_suffix|>", true), Style::kNameKeyed),
       {"<|tools_prefix|>"}},
      {styled(json_syntax("lfm2", {"<|tool_call_start|>"}, "<|tool_call_end|>"), Style::kPythonic),
       {"<|tool_list_start|>"}},
      {command_syntax("command_r7b", "<|START_ACTION|>", "<|END_ACTION|>"), {"<|START_ACTION|>"}},
      {action_syntax(), {"Action:", "tool_name"}},
      {json_syntax("phi4_mini_json", {"functools", "<|tool_call|>"}, "<|/tool_call|>", true),
       {"<|/tool_call|>"}},
      {json_syntax("granite", {"<|tool_call|>", "<tool_call>"}, "", true), {"<|tool_call|>"}},
      {json_syntax("minimax", {"<tool_calls>"}, "</tool_calls>"), {"<tool_calls>", "</tool_calls>"}},
      {json_syntax("hermes", {"<tool_call>"}, "</tool_call>"), {"<tool_call>"}},
      {named_syntax("functionary", "<function=", ">", "</function>"), {"<function="}},
      {styled(json_syntax("pythonic", {}, ""), Style::kPythonic), {"[func_name1("}},
      {llama_syntax(), {"\"parameters\": "}},
      {json_syntax("json", {}, ""), {}},
  };
  return kTools;
}

// Further names, mostly vLLM's, for the same formats.
const std::vector<std::pair<std::string_view, std::string_view>> kToolAliases = {
    {"qwen", "hermes"},
    {"qwen25", "hermes"},
    {"granite-20b-fc", "granite"},
    {"llama4_json", "llama3_json"},
    {"llama4_pythonic", "pythonic"},
    {"qwen3_xml", "qwen3_coder"},
    {"minimax_m1", "minimax"},
    {"glm47", "glm45"},
    {"cohere_command3", "command_r7b"},
    {"deepseek_r1", "deepseek_v3"},
    {"internlm", "json"},
    {"openai_json", "json"},
};

struct KnownReasoning {
  ReasoningSyntax syntax;
  std::string_view sign;  // in a template; empty: by name only
};

const std::vector<KnownReasoning>& known_reasoning() {
  static const std::vector<KnownReasoning> kReasoning = {
      {{"seed_oss", "<seed:think>", "</seed:think>", false, {}, {}}, "seed:think>"},
      {{"apertus", "<|inner_prefix|>", "<|inner_suffix|>", false, {}, {}}, "<|inner_prefix|>"},
      {{"cohere", "<|START_THINKING|>", "<|END_THINKING|>", false, "<|START_RESPONSE|>", "<|END_RESPONSE|>"},
       "<|START_THINKING|>"},
      {{"mistral", "[THINK]", "[/THINK]", false, {}, {}}, "[THINK]"},
      {{"granite", "<think>", "</think>", false, "<response>", "</response>"}, "<response></response>"},
      {{"qwen3", "<think>", "</think>", false, {}, {}}, "<think>"},
      {{"qwen3", "<think>", "</think>", false, {}, {}}, "</think>"},
      {{"deepseek_r1", "<think>", "</think>", true, {}, {}}, {}},
  };
  return kReasoning;
}

const std::vector<std::pair<std::string_view, std::string_view>> kReasoningAliases = {
    {"think", "qwen3"},        {"hunyuan_a13b", "qwen3"}, {"glm45", "qwen3"},      {"deepseek_v3", "qwen3"},
    {"holo2", "qwen3"},        {"smollm3", "qwen3"},      {"minimax_m1", "qwen3"}, {"step3", "deepseek_r1"},
    {"command_r7b", "cohere"}, {"ernie45", "qwen3"},
};

std::string_view resolve(std::string_view name,
                         const std::vector<std::pair<std::string_view, std::string_view>>& aliases) {
  for (const auto& [alias, meaning] : aliases) {
    if (alias == name) return meaning;
  }
  return name;
}

Error unknown_parser(std::string_view flag, std::string_view name, std::vector<std::string> known) {
  known.emplace_back("none");
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::string list;
  for (const std::string& each : known) list.append(list.empty() ? "" : ", ").append(each);
  return make_error(ErrorKind::kInvalidArgument,
                    fmt::format("{} {} is not known; it can be {}.", flag, name, list));
}

const KnownTools* tools_in_template(std::string_view chat_template) {
  for (const KnownTools& tools : known_tools()) {
    const auto has = [&](std::string_view sign) {
      return chat_template.find(sign) != std::string_view::npos;
    };
    if (!tools.signs.empty() && std::all_of(tools.signs.begin(), tools.signs.end(), has)) return &tools;
  }
  return nullptr;
}

Result<void> choose_tools(std::string_view chat_template, std::string_view parser, OutputFormat* format) {
  format->tools = known_tools().back().syntax;
  format->parse_tools = parser != "none";
  if (!format->parse_tools) return {};
  const KnownTools* found = tools_in_template(chat_template);
  const std::string_view name = resolve(parser, kToolAliases);
  if (!name.empty() && name != "auto" && (found == nullptr || found->syntax.name != name)) {
    const auto& all = known_tools();
    const auto named = std::find_if(all.begin(), all.end(),
                                    [&](const KnownTools& tools) { return tools.syntax.name == name; });
    if (named == all.end()) {
      std::vector<std::string> names;
      for (const KnownTools& tools : all) names.push_back(tools.syntax.name);
      for (const auto& alias : kToolAliases) names.emplace_back(alias.first);
      return unknown_parser("--tool-call-parser", parser, std::move(names));
    }
    found = &*named;
  }
  if (found == nullptr) return {};
  format->tools = found->syntax;
  format->tools_known = true;
  return {};
}

Result<void> choose_reasoning(std::string_view chat_template, std::string_view parser, OutputFormat* format) {
  if (parser == "none") return {};
  const bool from_template = parser.empty() || parser == "auto";
  const std::string_view name = resolve(parser, kReasoningAliases);
  for (const KnownReasoning& known : known_reasoning()) {
    const bool fits = from_template
                          ? !known.sign.empty() && chat_template.find(known.sign) != std::string_view::npos
                          : known.syntax.name == name;
    if (!fits) continue;
    format->reasoning = {known.syntax};
    return {};
  }
  if (from_template) return {};
  std::vector<std::string> names;
  for (const KnownReasoning& known : known_reasoning()) names.push_back(known.syntax.name);
  for (const auto& alias : kReasoningAliases) names.emplace_back(alias.first);
  return unknown_parser("--reasoning-parser", parser, std::move(names));
}

}  // namespace

std::vector<std::string> OutputFormat::markers() const {
  std::vector<std::string> result = tools.begins;
  for (const std::string* marker : {&tools.end, &tools.section_begin, &tools.section_end, &tools.name_begin,
                                    &tools.name_end, &tools.fence, &tools.fence_end}) {
    result.push_back(*marker);
  }
  if (tools.name == "mistral") {
    result.insert(result.end(), {"[ARGS]", "[CALL_ID]"});
  } else if (tools.name == "llama3_json" || tools.name == "pythonic") {
    result.emplace_back("<|python_tag|>");
  }
  for (const ReasoningSyntax& syntax : reasoning) {
    result.insert(result.end(), {syntax.begin, syntax.end, syntax.answer_begin, syntax.answer_end});
  }
  std::erase(result, "");
  return result;
}

Result<OutputFormat> choose_output_format(std::string_view chat_template, std::string_view tool_parser,
                                          std::string_view reasoning_parser) {
  OutputFormat format;
  PAGODA_TRY(choose_tools(chat_template, tool_parser, &format));
  PAGODA_TRY(choose_reasoning(chat_template, reasoning_parser, &format));
  return format;
}

bool prompt_opens_reasoning(const OutputFormat& format, std::string_view prompt) {
  const ReasoningSyntax* syntax = format.reasoning_syntax();
  if (syntax == nullptr) return false;
  const size_t last = prompt.find_last_not_of(" \t\r\n");
  const std::string_view text = prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return text.ends_with(syntax->begin) || (syntax->implied && !text.ends_with(syntax->end));
}

bool message_ends_in_reasoning(const OutputFormat& format, std::string_view message) {
  const ReasoningSyntax* syntax = format.reasoning_syntax();
  if (syntax == nullptr) return false;
  const size_t begin = message.rfind(syntax->begin), end = message.rfind(syntax->end);
  if (begin == std::string_view::npos) return false;
  return end == std::string_view::npos || end < begin;
}

}  // namespace pagoda::openai
