#include <fmt/format.h>

#include <algorithm>

#include "api/openai/chat_context.h"
#include "api/openai/common_fields.h"

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

// Without tools only the choices that mean "no tool" make sense.
void check_tool_choice(FieldReader& fields) {
  (void)fields.boolean("parallel_tool_calls");
  const Json* choice = fields.value("tool_choice");
  if (choice == nullptr) choice = fields.value("function_call");
  (void)fields.value("function_call");
  if (choice == nullptr) return;
  if (choice->is_string() && (*choice == "none" || *choice == "auto")) return;
  fields.fail("tool_choice",
              fmt::format("tool_choice {} needs tools, and the request has none; none and auto are allowed.",
                          describe(*choice)));
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
  check_tool_choice(fields);
  // Templates write BOS themselves; a tokenizer's own is not added on top unless asked for.
  common.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (common.add_special_tokens) {
    fields.fail("add_special_tokens", "add_special_tokens must be false for chat: the template writes them.");
  }
  request.context_json = read_chat_context(fields, options);
  PAGODA_TRY(finish_fields(fields, options, &common.unknown_fields));
  PAGODA_TRY(check_fan_out(common, 1));
  return request;
}

}  // namespace pagoda::openai
