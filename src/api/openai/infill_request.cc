#include "api/openai/infill_request.h"

#include <fmt/format.h>

#include <array>

#include "api/openai/common_fields.h"

namespace pagoda::openai {
namespace {

constexpr size_t kMaxFiles = 1024;
constexpr size_t kMaxResponseFields = 64;
constexpr double kMaxRepeatPenalty = 1e6;    // as repetition_penalty's
constexpr int64_t kRandomSeed = 4294967295;  // llama-server's, as is -1
// llama-server's fields that steer its own cache, threads and time: they change no answer of this server.
constexpr std::array kWithoutEffect = {"cache_prompt", "id_slot",  "n_cache_reuse",   "n_keep",
                                       "n_indent",     "samplers", "t_max_prompt_ms", "t_max_predict_ms"};

std::string required_text(FieldReader& fields, const char* name) {
  if (!fields.present(name)) fields.fail(name, fmt::format("{} is required.", name));
  return fields.string(name).value_or("");
}

std::string text_of(const Json& file, const char* name, FieldReader& fields, size_t index) {
  const auto found = file.find(name);
  if (found == file.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  fields.fail("input_extra",
              fmt::format("input_extra[{}].{} must be a string, got {}.", index, name, describe(*found)));
  return {};
}

std::vector<InfillFile> read_files(FieldReader& fields) {
  std::vector<InfillFile> files;
  const Json* list = fields.value("input_extra");
  if (list == nullptr) return files;
  if (!list->is_array() || list->size() > kMaxFiles) {
    fields.fail(
        "input_extra",
        fmt::format("input_extra must be a list of at most {} objects with text and filename, got {}.",
                    kMaxFiles, list->is_array() ? fmt::format("{}", list->size()) : describe(*list)));
    return files;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& item = (*list)[i];
    if (!item.is_object() || !item.contains("text")) {
      fields.fail("input_extra",
                  fmt::format("input_extra[{}] must be an object with text, got {}.", i, describe(item)));
      return files;
    }
    InfillFile file{text_of(item, "filename", fields, i), text_of(item, "text", fields, i)};
    if (file.name.empty()) file.name = text_of(item, "name", fields, i);
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> read_response_fields(FieldReader& fields) {
  std::vector<std::string> names;
  const Json* list = fields.value("response_fields");
  if (list == nullptr) return names;
  if (!list->is_array() || list->size() > kMaxResponseFields) {
    fields.fail("response_fields", fmt::format("response_fields must be a list of at most {} names, got {}.",
                                               kMaxResponseFields, describe(*list)));
    return names;
  }
  for (const Json& name : *list) {
    if (!name.is_string()) {
      fields.fail("response_fields",
                  fmt::format("response_fields must hold strings only, got {}.", describe(name)));
      return names;
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

void read_own_sampling(FieldReader& fields, CommonFields* common) {
  SamplingFields& sampling = common->sampling;
  const auto penalty = fields.number("repeat_penalty", {0.0, kMaxRepeatPenalty, true});
  if (penalty) sampling.repetition_penalty = *penalty;
  if (sampling.seed == -1 || sampling.seed == kRandomSeed) sampling.seed.reset();
  // -1 means no limit, -2 until the context is full; both end with it.
  const auto predict = fields.integer("n_predict", -2, INT64_MAX);
  const auto other_name = fields.integer("max_tokens", -2, INT64_MAX);
  const int64_t limit = predict ? *predict : other_name.value_or(-1);
  if (limit >= 0) common->max_tokens = limit;
}

}  // namespace

Result<InfillRequest> parse_infill_request(std::string_view body, const ParseOptions& options) {
  const Json json = PAGODA_TRY(parse_object(body));
  FieldReader fields(json);
  InfillRequest request;
  CommonFields& common = request.common;
  read_common(fields, options, &common);
  read_own_sampling(fields, &common);
  if (common.n != 1) fields.fail("n", fmt::format("n must be 1 for /infill, got {}.", common.n));
  if (common.prompt_logprobs) fields.fail("prompt_logprobs", "prompt_logprobs is not available for /infill.");
  if (common.truncate_prompt_tokens != 0) {
    fields.fail(
        "truncate_prompt_tokens",
        "truncate_prompt_tokens is not available for /infill: a prompt that is too long is cut at the far "
        "ends of prefix and suffix.");
  }
  request.prefix = required_text(fields, "input_prefix");
  request.suffix = required_text(fields, "input_suffix");
  request.prefix += fields.string("prompt").value_or("");
  request.files = read_files(fields);
  request.stop_at_suffix = fields.boolean("stop_at_suffix").value_or(true);
  request.return_tokens = fields.boolean("return_tokens").value_or(common.return_token_ids);
  request.response_fields = read_response_fields(fields);
  for (const char* name : kWithoutEffect) (void)fields.value(name);
  PAGODA_TRY(finish_fields(fields, options.strict, &common.unknown_fields));
  PAGODA_TRY(check_fan_out(common, 1));
  return request;
}

}  // namespace pagoda::openai
