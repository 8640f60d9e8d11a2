#include <fmt/format.h>

#include "api/openai/chat_context.h"
#include "api/openai/common_fields.h"
#include "api/openai/tool_request.h"

namespace pagoda::openai {

Result<TokenizeRequest> parse_tokenize_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  TokenizeRequest request;
  read_model(fields, options, &request.model);
  const bool chat = fields.present("messages");
  if (chat == fields.present("prompt")) {
    fields.fail("prompt", "Exactly one of prompt and messages must be given.");
  }
  if (chat) {
    refuse_unimplemented(fields);
    request.context_json = read_chat_context(fields, options, read_shown_tools(fields).shown);
  } else {
    request.prompt = fields.string("prompt");
  }
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(!chat);
  request.parse_special_tokens = fields.boolean("parse_special").value_or(true);
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  std::vector<std::string> unknown;
  PAGODA_TRY(finish_fields(fields, options.strict, &unknown));
  return request;
}

Result<DetokenizeRequest> parse_detokenize_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  DetokenizeRequest request;
  read_model(fields, options, &request.model);
  if (!fields.present("tokens")) fields.fail("tokens", "tokens is required.");
  if (auto ids = fields.token_ids("tokens", options.vocab_size)) request.tokens = std::move(*ids);
  std::vector<std::string> unknown;
  PAGODA_TRY(finish_fields(fields, options.strict, &unknown));
  return request;
}

Result<std::string> parse_apply_template_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  std::string model;
  read_model(fields, options, &model);
  refuse_unimplemented(fields);
  std::string context = read_chat_context(fields, options, read_shown_tools(fields).shown);
  std::vector<std::string> unknown;
  PAGODA_TRY(finish_fields(fields, options.strict, &unknown));
  return context;
}

}  // namespace pagoda::openai
