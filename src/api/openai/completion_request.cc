#include <fmt/format.h>

#include "api/openai/common_fields.h"

namespace pagoda::openai {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;  // of the OpenAI reference

Error wrong_prompt(std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), "prompt");
}

Result<PromptInput> read_ids(const Json& list, const ParseOptions& options) {
  if (list.empty())
    return wrong_prompt("prompt holds an empty list of token ids; at least one token is needed.");
  return PromptInput(PAGODA_TRY(read_token_ids(list, "prompt", options.vocab_size)));
}

// string, [string], [int] or [[int]].
Result<std::vector<PromptInput>> read_prompts(const Json* prompt, const ParseOptions& options) {
  if (prompt == nullptr) return wrong_prompt("prompt is required.");
  std::vector<PromptInput> prompts;
  if (prompt->is_string()) {
    prompts.emplace_back(prompt->get<std::string>());
    return prompts;
  }
  if (!prompt->is_array()) {
    return wrong_prompt(
        fmt::format("prompt must be a string, a list of strings, a list of token ids or a list of such "
                    "lists, got {}.",
                    describe(*prompt)));
  }
  if (prompt->empty()) return wrong_prompt("prompt must not be an empty list.");
  const Json& first = prompt->front();
  if (!first.is_string() && !first.is_array()) {
    prompts.push_back(PAGODA_TRY(read_ids(*prompt, options)));
    return prompts;
  }
  if (prompt->size() > static_cast<size_t>(options.max_prompts)) {
    return wrong_prompt(fmt::format("prompt holds {} prompts; at most {} are allowed in one request.",
                                    prompt->size(), options.max_prompts));
  }
  for (const Json& item : *prompt) {
    if (item.type() != first.type()) {
      return wrong_prompt(fmt::format("prompt mixes strings and token ids: got {}.", describe(item)));
    }
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else {
      prompts.push_back(PAGODA_TRY(read_ids(item, options)));
    }
  }
  return prompts;
}

// `true` is one alternative, as pydantic (and so vLLM) reads it.
std::optional<int> read_logprobs(FieldReader& fields, const ParseOptions& options) {
  const Json* value = fields.value("logprobs");
  if (value == nullptr || !value->is_boolean()) return read_logprobs_count(fields, "logprobs", options);
  if (!value->get<bool>()) return std::nullopt;
  return 1;
}

int read_best_of(FieldReader& fields, const ParseOptions& options, const CommonFields& common) {
  const auto best_of = fields.integer("best_of", 1, options.max_n);
  if (!best_of) return common.n;
  if (*best_of < common.n) {
    fields.fail("best_of", fmt::format("best_of is {}, less than n, which is {}.", *best_of, common.n));
  }
  if (*best_of > common.n && common.stream) {
    fields.fail("best_of", "best_of must equal n when stream is true: the best are known at the end.");
  }
  return static_cast<int>(*best_of);
}

// A client that sends an empty suffix has nothing after the cursor; that is a plain completion.
void read_suffix(FieldReader& fields, CompletionRequest* request) {
  request->stop_at_suffix = fields.boolean("stop_at_suffix").value_or(true);
  auto suffix = fields.string("suffix");
  if (!suffix || suffix->empty()) return;
  if (request->echo) fields.fail("echo", "echo is not available with suffix.");
  if (request->common.truncate_prompt_tokens != 0) {
    fields.fail(
        "truncate_prompt_tokens",
        "truncate_prompt_tokens is not available with suffix: a prompt that is too long is cut at the far "
        "ends of prefix and suffix.");
  }
  request->suffix = std::move(suffix);
}

Result<void> check_suffix(const CompletionRequest& request) {
  if (!request.suffix || std::holds_alternative<std::string>(request.prompts.front())) return {};
  return wrong_prompt("prompt must be text when there is a suffix, got token ids.");
}

}  // namespace

Result<CompletionRequest> parse_completion_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  CompletionRequest request;
  CommonFields& common = request.common;
  read_common(fields, options, &common);
  common.max_tokens = fields.integer("max_tokens", 0, INT64_MAX);
  common.default_max_tokens = kDefaultMaxTokens;
  common.logprobs = read_logprobs(fields, options);
  common.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  request.echo = fields.boolean("echo").value_or(false);
  request.best_of = read_best_of(fields, options, common);
  read_suffix(fields, &request);
  auto prompts = read_prompts(fields.value("prompt"), options);
  if (prompts) {
    request.prompts = std::move(*prompts);
  } else {
    fields.fail(std::move(prompts).error());
  }
  PAGODA_TRY(finish_fields(fields, options.strict, &common.unknown_fields));
  PAGODA_TRY(check_suffix(request));
  CommonFields generated = common;
  generated.n = request.best_of;
  PAGODA_TRY(check_fan_out(generated, request.prompts.size()));
  return request;
}

}  // namespace pagoda::openai
