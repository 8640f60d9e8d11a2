#include "api/openai/common_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "api/openai/grammar_fields.h"

namespace pagoda::openai {
namespace {

constexpr size_t kMaxTopLevelFields = 256;  // the contract knows about 60
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 4096;  // each costs a table of that size per choice
constexpr size_t kMaxBadWords = 1024;
constexpr size_t kMaxIdentifierBytes =
    256;  // request_id and cache_salt are copied into every message about the request
// Every prompt and choice of a request carries its own copy of the sampling fields.
constexpr size_t kMaxFanOutBytes = size_t{64} << 20;
constexpr double kMaxTimeoutSeconds = 86400;
constexpr int64_t kNoLimit = INT64_MAX;
// Penalties above this make float logits overflow; 2 is already strong.
constexpr double kMaxRepetitionPenalty = 1e6;

void read_string_list(FieldReader& fields, const char* name, size_t max_items,
                      std::vector<std::string>* out) {
  const Json* json = fields.value(name);
  if (json == nullptr) return;
  if (!json->is_array() || json->size() > max_items) {
    return fields.fail(
        name, json->is_array()
                  ? fmt::format("{} holds {} strings; at most {} are allowed.", name, json->size(), max_items)
                  : fmt::format("{} must be an array of strings, got {}.", name, describe(*json)));
  }
  for (const Json& item : *json) {
    if (!item.is_string()) {
      return fields.fail(name, fmt::format("{} must hold strings only, got {}.", name, describe(item)));
    }
    const auto& text = item.get_ref<const std::string&>();
    if (text.empty()) return fields.fail(name, fmt::format("{} must not hold an empty string.", name));
    if (text.size() > kMaxStopBytes) {
      return fields.fail(name, fmt::format("A string in {} has {} bytes; at most {} are allowed.", name,
                                           text.size(), kMaxStopBytes));
    }
    out->push_back(text);
  }
}

void read_stop(FieldReader& fields, std::vector<std::string>* stop) {
  const Json* json = fields.value("stop");
  if (json == nullptr) return;
  if (!json->is_string()) return read_string_list(fields, "stop", kMaxStops, stop);
  const auto& text = json->get_ref<const std::string&>();
  if (text.empty()) return fields.fail("stop", "stop must not be an empty string.");
  if (text.size() > kMaxStopBytes) {
    return fields.fail("stop",
                       fmt::format("stop has {} bytes; at most {} are allowed.", text.size(), kMaxStopBytes));
  }
  stop->push_back(text);
}

void read_logit_bias(FieldReader& fields, const ParseOptions& options, SamplingFields* sampling) {
  const Json* json = fields.object("logit_bias");
  if (json == nullptr) return;
  for (const auto& item : json->items()) {
    const std::string& key = item.key();
    int64_t id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool canonical =
        failure == std::errc() && end == key.data() + key.size() && key == std::to_string(id);
    if (!canonical) {
      return fields.fail("logit_bias", fmt::format("logit_bias has the key {}, which is not a token id.",
                                                   describe(Json(key))));
    }
    if (id < 0 || id >= options.vocab_size) {
      return fields.fail("logit_bias",
                         fmt::format("Token id {} in logit_bias is out of vocabulary: ids are 0 to {}.", id,
                                     options.vocab_size - 1));
    }
    const Json& bias = item.value();
    const double value = bias.is_number() ? bias.get<double>() : 1e9;
    if (!(value >= -100.0 && value <= 100.0)) {
      return fields.fail(
          "logit_bias", fmt::format("The logit_bias of token {} must be a number in [-100, 100], got {}.", id,
                                    describe(bias)));
    }
    sampling->logit_bias.emplace_back(TokenId{static_cast<int32_t>(id)}, static_cast<float>(value));
  }
}

// Repetitions would cost time in every step.
void sort_unique(std::vector<TokenId>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

void read_token_limits(FieldReader& fields, const ParseOptions& options, SamplingFields* sampling) {
  if (auto ids = fields.token_ids("stop_token_ids", options.vocab_size))
    sampling->stop_token_ids = std::move(*ids);
  if (auto ids = fields.token_ids("allowed_token_ids", options.vocab_size)) {
    if (ids->empty())
      fields.fail("allowed_token_ids", "allowed_token_ids must not be empty: nothing could be generated.");
    sampling->allowed_token_ids = std::move(*ids);
  }
  sort_unique(&sampling->stop_token_ids);
  sort_unique(&sampling->allowed_token_ids);
}

void read_sampling(FieldReader& fields, const ParseOptions& options, SamplingFields* sampling) {
  const SamplingDefaults& defaults = options.defaults;
  const auto number = [&](const char* name, const NumberRange& range, std::optional<double> fallback,
                          double* out) {
    if (fallback) *out = *fallback;
    if (const auto value = fields.number(name, range)) *out = *value;
  };
  number("temperature", {0.0, 2.0}, defaults.temperature, &sampling->temperature);
  number("top_p", {0.0, 1.0, true}, defaults.top_p, &sampling->top_p);
  number("min_p", {0.0, 1.0}, defaults.min_p, &sampling->min_p);
  number("repetition_penalty", {0.0, kMaxRepetitionPenalty, true}, defaults.repetition_penalty,
         &sampling->repetition_penalty);
  number("frequency_penalty", {-2.0, 2.0}, std::nullopt, &sampling->frequency_penalty);
  number("presence_penalty", {-2.0, 2.0}, std::nullopt, &sampling->presence_penalty);
  const int64_t top_k = fields.integer("top_k", -1, kNoLimit).value_or(defaults.top_k.value_or(0));
  sampling->top_k = std::max<int64_t>(top_k, 0);
  sampling->min_tokens = fields.integer("min_tokens", 0, kNoLimit).value_or(0);
  sampling->seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  read_stop(fields, &sampling->stop);
  sampling->include_stop_str_in_output = fields.boolean("include_stop_str_in_output").value_or(false);
  sampling->ignore_eos = fields.boolean("ignore_eos").value_or(false);
  read_logit_bias(fields, options, sampling);
  read_token_limits(fields, options, sampling);
  read_string_list(fields, "bad_words", kMaxBadWords, &sampling->bad_words);
}

void read_stream(FieldReader& fields, CommonFields* common) {
  common->stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!common->stream)
    return fields.fail("stream_options", "stream_options is allowed only when stream is true.");
  FieldReader inner(*options, "stream_options.");
  common->include_usage = inner.boolean("include_usage").value_or(false);
  common->continuous_usage_stats = inner.boolean("continuous_usage_stats").value_or(false);
  fields.finish(inner);
}

std::string read_identifier(FieldReader& fields, const char* name) {
  std::string text = fields.string(name).value_or("");
  if (fields.present(name) && (text.empty() || text.size() > kMaxIdentifierBytes)) {
    fields.fail(name,
                fmt::format("{} must have 1 to {} bytes, got {}.", name, kMaxIdentifierBytes, text.size()));
  }
  return text;
}

std::string read_request_id(FieldReader& fields) {
  std::string id = read_identifier(fields, "request_id");
  const bool printable = std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!printable)
    fields.fail("request_id", "request_id must consist of printable ASCII characters without spaces.");
  return id;
}

}  // namespace

Result<Json> parse_object(std::string_view body) {
  Json json = PAGODA_TRY(parse_json(body));
  if (!json.is_object()) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("The body must be a JSON object, got {}.", describe(json)));
  }
  if (json.size() > kMaxTopLevelFields) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("The body has {} fields; at most {} are allowed.", json.size(), kMaxTopLevelFields));
  }
  return json;
}

void read_model(FieldReader& fields, const ParseOptions& options, std::string* model) {
  *model = fields.string("model").value_or("");
  if (model->empty()) return;
  const auto& names = options.model_names;
  if (std::find(names.begin(), names.end(), *model) != names.end()) return;
  fields.fail(make_error(ErrorKind::kNotFound,
                         fmt::format("The model {} does not exist; this server has {}.",
                                     describe(Json(*model)), names.empty() ? "none" : names.front()),
                         "model", "model_not_found"));
}

void read_common(FieldReader& fields, const ParseOptions& options, CommonFields* common) {
  read_model(fields, options, &common->model);
  common->n = static_cast<int>(fields.integer("n", 1, options.max_n).value_or(1));
  read_sampling(fields, options, &common->sampling);
  read_stream(fields, common);
  common->prompt_logprobs = read_logprobs_count(fields, "prompt_logprobs", options);
  if (common->prompt_logprobs && common->stream) {
    fields.fail("prompt_logprobs", "prompt_logprobs is not available when stream is true.");
  }
  common->skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  common->return_token_ids = fields.boolean("return_token_ids").value_or(false);
  common->truncate_prompt_tokens = read_truncation(fields, kNoLimit);
  common->priority = static_cast<int>(fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  common->cache_salt = read_identifier(fields, "cache_salt");
  common->user = fields.string("user").value_or("");
  common->request_id = read_request_id(fields);
  if (const auto seconds = fields.number("timeout", {0.0, kMaxTimeoutSeconds, true})) {
    const auto limit = std::chrono::duration<double>(*seconds);
    common->timeout = std::chrono::ceil<std::chrono::milliseconds>(limit);
  }
  read_grammar(fields, &common->grammar);
  refuse_unimplemented(fields);
}

Result<void> finish_fields(const FieldReader& fields, bool strict, std::vector<std::string>* unknown) {
  if (fields.error()) return *fields.error();
  *unknown = fields.unknown_fields();
  if (strict && !unknown->empty()) {
    const std::string& name = unknown->front();
    return make_error(ErrorKind::kInvalidArgument, fmt::format("Unknown field {}.", describe(Json(name))),
                      name);
  }
  if (unknown->size() > kMaxReportedFields) unknown->resize(kMaxReportedFields);
  return {};
}

Result<void> check_fan_out(const CommonFields& common, size_t num_prompts) {
  const SamplingFields& sampling = common.sampling;
  const auto text_bytes = [](const std::vector<std::string>& texts) {
    size_t bytes = 0;
    for (const std::string& text : texts) bytes += text.size();
    return bytes;
  };
  const size_t per_prompt =
      sampling.logit_bias.size() * sizeof(sampling.logit_bias[0]) +
      (sampling.allowed_token_ids.size() + sampling.stop_token_ids.size()) * sizeof(TokenId) +
      text_bytes(sampling.bad_words) + (common.grammar ? common.grammar->text.size() : 0);
  // A stop string comes with a table of one size_t per byte in every choice.
  const size_t per_choice = text_bytes(sampling.stop) * (1 + sizeof(size_t));
  const size_t total = num_prompts * (per_prompt + static_cast<size_t>(common.n) * per_choice);
  if (total <= kMaxFanOutBytes) return {};
  return make_error(
      ErrorKind::kInvalidArgument,
      fmt::format("The request's logit_bias, token lists, stop and bad_words, repeated for {} prompts with "
                  "{} choices each, would take {} bytes; at most {} are allowed.",
                  num_prompts, common.n, total, kMaxFanOutBytes),
      num_prompts > 1 ? "prompt" : "n");
}

std::optional<int> read_logprobs_count(FieldReader& fields, const char* name, const ParseOptions& options) {
  const bool unlimited = options.max_logprobs < 0;
  const int64_t max = unlimited ? options.vocab_size : options.max_logprobs;
  const auto count = fields.integer(name, unlimited ? kAllLogprobs : 0, max);
  if (!count) return std::nullopt;
  return static_cast<int>(*count);
}

int64_t read_truncation(FieldReader& fields, int64_t max) {
  const auto keep = fields.integer("truncate_prompt_tokens", -1, max);
  if (keep == 0)
    fields.fail("truncate_prompt_tokens", "truncate_prompt_tokens must be -1 or at least 1, got 0.");
  return keep.value_or(0);
}

void refuse_unimplemented(FieldReader& fields) {
  if (!fields.boolean("use_beam_search").value_or(false)) return;
  fields.fail(make_error(ErrorKind::kUnimplemented,
                         "Beam search is not supported in this version (field use_beam_search).",
                         "use_beam_search"));
}

}  // namespace pagoda::openai
