#include "api/openai/generate_request.h"

#include <fmt/format.h>

#include "api/openai/common_fields.h"

namespace pagoda::openai {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;  // as /v1/completions

}  // namespace

Result<GenerateRequest> parse_generate_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  GenerateRequest request;
  CommonFields& common = request.common;
  read_common(fields, options, &common);
  common.max_tokens = fields.integer("max_tokens", 0, INT64_MAX);
  common.default_max_tokens = kDefaultMaxTokens;
  common.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  if (common.n != 1) {
    fields.fail("n", fmt::format("n must be 1 for /generate, got {}; /v1/completions has more.", common.n));
  }
  if (common.prompt_logprobs || common.return_token_ids) {
    fields.fail(common.prompt_logprobs ? "prompt_logprobs" : "return_token_ids",
                "/generate answers with text only; see /v1/completions.");
  }
  if (!fields.present("prompt")) fields.fail("prompt", "prompt is required.");
  request.prompt = fields.string("prompt").value_or("");
  PAGODA_TRY(finish_fields(fields, options.strict, &common.unknown_fields));
  PAGODA_TRY(check_fan_out(common, 1));
  return request;
}

}  // namespace pagoda::openai
