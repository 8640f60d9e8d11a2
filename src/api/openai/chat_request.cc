#include <fmt/format.h>

#include "api/openai/chat_context.h"
#include "api/openai/common_fields.h"
#include "api/openai/output/output_format.h"
#include "api/openai/output/tool_grammar.h"
#include "api/openai/tool_request.h"

namespace pagoda::openai {
namespace {

void read_max_tokens(FieldReader& fields, const ParseOptions& options, CommonFields* common) {
  // The newer name wins where both are sent, as in vLLM.
  const auto old_name = fields.integer("max_tokens", 1, INT64_MAX);
  const auto new_name = fields.integer("max_completion_tokens", 1, INT64_MAX);
  common->max_tokens = new_name ? new_name : old_name;
  common->default_max_tokens = options.defaults.max_tokens;
}

void read_logprobs(FieldReader& fields, const ParseOptions& options, CommonFields* common) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = read_logprobs_count(fields, "top_logprobs", options);
  if (top.value_or(0) != 0 && !wanted) {
    fields.fail("top_logprobs", "top_logprobs needs logprobs to be true.");
  }
  if (wanted) common->logprobs = top.value_or(0);
}

// The text of the message that is continued.
std::string final_text(const Json& context) {
  const Json& content = context["messages"].back()["content"];
  if (content.is_string()) return content.get<std::string>();
  return content.is_array() && !content.empty() ? content.back().value("text", "") : "";
}

bool starts_in_reasoning(const ParseOptions& options, const std::string& context_json) {
  const OutputFormat& format = *options.output_format;
  if (context_json.find("continue_final_message") != std::string::npos) {
    const auto context = parse_json(context_json);
    if (context && context->value("continue_final_message", false)) {
      return message_ends_in_reasoning(format, final_text(*context));
    }
  }
  if (!options.render) return false;
  // An error comes again when the prompt is made, and is reported then.
  const auto prompt = options.render(context_json);
  return prompt && prompt_opens_reasoning(format, *prompt);
}

void read_parsing(FieldReader& fields, const ParseOptions& options, const ToolUse& tools,
                  ChatRequest* request) {
  OutputParsing& parsing = request->parsing;
  parsing.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  parsing.format = options.output_format;
  parsing.tool_specs = tools.callable;
  parsing.one_call = tools.one_call;
  parsing.legacy_call = tools.legacy;
  if (parsing.format == nullptr || fields.error()) return;
  parsing.tools = parsing.format->parse_tools && tools.choice != ToolUse::Choice::kNone;
  parsing.reasoning = parsing.format->reasoning_syntax() != nullptr;
  parsing.starts_in_reasoning = parsing.reasoning && starts_in_reasoning(options, request->context_json);
  if (parsing.tools || parsing.reasoning)
    request->common.shown_special_tokens = parsing.format->hidden_markers;
}

// A grammar of the request holds for the whole output. A JSON answer may have reasoning in front of it and
// calls in its place; other grammars leave no room for either.
void adapt_grammar(ChatRequest* request) {
  OutputParsing& parsing = request->parsing;
  auto& grammar = request->common.grammar;
  if (!grammar || (!parsing.tools && !parsing.reasoning)) return;
  using Kind = OutputGrammar::Kind;
  if (grammar->kind == Kind::kJsonObject || grammar->kind == Kind::kJsonSchema) {
    const std::string schema = grammar->kind == Kind::kJsonObject ? R"({"type":"object"})" : grammar->text;
    *grammar = OutputGrammar{Kind::kLark, answer_grammar(parsing, schema), grammar->param};
    return;
  }
  parsing.tools = parsing.reasoning = parsing.starts_in_reasoning = false;
}

// A call is forced by a grammar. response_format is for answers without calls, so both can be there, as with
// OpenAI; the other fields speak of the whole output.
void enforce_call(FieldReader& fields, const ToolUse& tools, ChatRequest* request) {
  const bool forced = tools.choice == ToolUse::Choice::kRequired || tools.choice == ToolUse::Choice::kNamed;
  if (fields.error()) return;
  if (!forced) return adapt_grammar(request);
  const char* param = tools.legacy ? "function_call" : "tool_choice";
  if (!request->parsing.tools) {
    return fields.fail(make_error(ErrorKind::kUnimplemented,
                                  "A tool can't be forced: the server runs with --tool-call-parser none.",
                                  param));
  }
  if (request->common.grammar && !request->common.grammar->param.starts_with("response_format")) {
    return fields.fail(make_error(ErrorKind::kInvalidArgument,
                                  fmt::format("{} and {} exclude each other: the output is a call.", param,
                                              request->common.grammar->param),
                                  param));
  }
  request->common.grammar = OutputGrammar{OutputGrammar::Kind::kLark, tool_grammar(request->parsing), param};
}

}  // namespace

Result<ChatRequest> parse_chat_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  return read_chat_request(json, options);
}

Result<ChatRequest> read_chat_request(const Json& body, const ParseOptions& options) {
  FieldReader fields(body);
  ChatRequest request;
  CommonFields& common = request.common;
  read_common(fields, options, &common);
  read_max_tokens(fields, options, &common);
  read_logprobs(fields, options, &common);
  const ToolUse tools = read_tool_use(fields);
  // Templates write BOS themselves; a tokenizer's own is not added on top unless asked for.
  common.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (common.add_special_tokens) {
    fields.fail("add_special_tokens", "add_special_tokens must be false for chat: the template writes them.");
  }
  request.context_json = read_chat_context(fields, options, tools.shown);
  read_parsing(fields, options, tools, &request);
  enforce_call(fields, tools, &request);
  PAGODA_TRY(finish_fields(fields, options.strict, &common.unknown_fields));
  PAGODA_TRY(check_fan_out(common, 1));
  return request;
}

}  // namespace pagoda::openai
