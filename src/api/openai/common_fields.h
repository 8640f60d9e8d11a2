// Fields that completions and chat completions share.
#pragma once

#include <string_view>

#include "api/openai/field_reader.h"
#include "api/openai/request.h"

namespace pagoda::openai {

// Parses the body and checks that it is an object of sensible width.
Result<Json> parse_object(std::string_view body);

// kNotFound with code model_not_found when the request names a model that is not served.
void read_model(FieldReader& fields, const ParseOptions& options, std::string* model);

// Everything in CommonFields but max_tokens, logprobs and unknown_fields.
void read_common(FieldReader& fields, const ParseOptions& options, CommonFields* common);

// Call last: the first error of the reader, unknown fields in strict mode, or the list for the warning
// header.
Result<void> finish_fields(const FieldReader& fields, bool strict, std::vector<std::string>* unknown);

// kInvalidArgument when the request, small as it is, would grow to more memory than one client should take.
Result<void> check_fan_out(const CommonFields& common, size_t num_prompts);

// The largest number of logprobs that a request may ask for in field `name`; -1 is allowed with unlimited
// logprobs.
std::optional<int> read_logprobs_count(FieldReader& fields, const char* name, const ParseOptions& options);

// truncate_prompt_tokens: 0 when absent, and only then.
int64_t read_truncation(FieldReader& fields, int64_t max);

// kUnimplemented when any of these is present and not empty.
void refuse_unimplemented(FieldReader& fields);

}  // namespace pagoda::openai
