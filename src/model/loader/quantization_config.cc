#include "model/loader/quantization_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>

#include "model/loader/file_error.h"

namespace pagoda::model {
namespace {

constexpr int64_t kMaxGroupSize = int64_t{1} << 24;  // wider than every matrix
constexpr size_t kMaxConfigGroups = 256;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The first of two keys that is there: tools spell the same thing in two ways.
Result<std::optional<int64_t>> integer(const JsonView& json, const char* key, const char* other) {
  const auto value = PAGODA_TRY(json.integer(key));
  return value ? value : PAGODA_TRY(json.integer(other));
}

Result<CodeFormat> read_code_format(const JsonView& json, const char* bits_key, const char* group_key) {
  const auto bits = PAGODA_TRY(integer(json, "bits", bits_key));
  const auto group = PAGODA_TRY(integer(json, "group_size", group_key));
  if (!bits) return corrupt_file(json.where(), "key 'bits' is missing");
  if (!group) return corrupt_file(json.where(), "key 'group_size' is missing");
  if (*group != CodeFormat::kPerRow && (*group < 1 || *group > kMaxGroupSize)) {
    return corrupt_file(json.where(), "key 'group_size' is {}, neither -1 nor a positive number", *group);
  }
  if (*bits < 1 || *bits > 64) return corrupt_file(json.where(), "key 'bits' is {}", *bits);
  return CodeFormat{static_cast<int>(*bits), *group};
}

Result<void> read_gptq(const JsonView& json, QuantizationConfig& config) {
  const CodeFormat format = PAGODA_TRY(read_code_format(json, "bits", "group_size"));
  if (format.bits != 4 && format.bits != 8) {
    return unsupported_model(json.where(), "GPTQ with {} bits can't be run; 4 and 8 can", format.bits);
  }
  config.formats = {format};
  config.needs_group_index = PAGODA_TRY(json.boolean("desc_act")).value_or(false);
  const auto older = PAGODA_TRY(json.string("format"));
  const std::string layout =
      lower(PAGODA_TRY(json.string("checkpoint_format")).value_or(older.value_or("gptq")));
  if (layout != "gptq" && layout != "gptq_v2") {
    return unsupported_model(json.where(),
                             "key 'checkpoint_format' is {}, which can't be run; gptq and gptq_v2 can",
                             shown(layout));
  }
  config.zeros_minus_one = layout == "gptq";
  // GPTQModel's exceptions by module: those that leave a module out show in the files, others change bits.
  const auto dynamic = PAGODA_TRY(json.object("dynamic"));
  const nlohmann::json* const rules = json.find("dynamic");
  if (!dynamic) return {};
  for (const auto& [pattern, rule] : rules->items()) {
    if (pattern.starts_with("-:")) continue;
    return unsupported_model(json.where(), "key 'dynamic' gives {} other settings, which can't be run",
                             shown(pattern));
  }
  return {};
}

Result<void> read_awq(const JsonView& json, QuantizationConfig& config) {
  const CodeFormat format = PAGODA_TRY(read_code_format(json, "w_bit", "q_group_size"));
  if (format.bits != 4) {
    return unsupported_model(json.where(), "AWQ with {} bits can't be run; 4 can", format.bits);
  }
  config.formats = {format};
  const std::string version = lower(PAGODA_TRY(json.string("version")).value_or("gemm"));
  if (version != "gemm") {
    return unsupported_model(json.where(), "AWQ in the layout {} can't be run; gemm can", shown(version));
  }
  const std::string backend = lower(PAGODA_TRY(json.string("backend")).value_or("autoawq"));
  if (backend != "autoawq") {
    return unsupported_model(json.where(), "AWQ by the backend {} can't be run; autoawq can", shown(backend));
  }
  if (!PAGODA_TRY(json.boolean("zero_point")).value_or(true)) {
    return unsupported_model(json.where(), "AWQ without zero points can't be run");
  }
  return {};
}

// {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, ...}
Result<CodeFormat> read_weight_args(const JsonView& json) {
  const int64_t bits = PAGODA_TRY(json.integer("num_bits")).value_or(8);
  const std::string type = PAGODA_TRY(json.string("type")).value_or("int");
  if (type != "int" || (bits != 4 && bits != 8)) {
    return unsupported_model(json.where(),
                             "weights of type {} with {} bits can't be run; int with 4 and 8 can",
                             shown(type), bits);
  }
  const int64_t group = PAGODA_TRY(json.integer("group_size")).value_or(CodeFormat::kPerRow);
  const std::string strategy = PAGODA_TRY(json.string("strategy"))
                                   .value_or(group > 0                      ? "group"
                                             : group == CodeFormat::kPerRow ? "channel"
                                                                            : "tensor");
  CodeFormat format{static_cast<int>(bits), CodeFormat::kPerRow};
  if (strategy == "tensor") {
    format.group_size = CodeFormat::kPerMatrix;
  } else if (strategy == "group") {
    if (group < 1 || group > kMaxGroupSize) {
      return corrupt_file(json.where(), "key 'group_size' is {} under the strategy 'group'", group);
    }
    format.group_size = group;
  } else if (strategy != "channel") {
    return unsupported_model(json.where(),
                             "key 'strategy' is {}, which can't be run; tensor, channel and group can",
                             shown(strategy));
  }
  return format;
}

// Activations are rounded here by groups of 32, whatever the model says: that is finer than what it was made
// for. Only the kind must fit.
Result<void> check_activations(const JsonView& group) {
  const auto inputs = PAGODA_TRY(group.object("input_activations"));
  if (!inputs) return {};
  const std::string type = PAGODA_TRY(inputs->string("type")).value_or("int");
  const int64_t bits = PAGODA_TRY(inputs->integer("num_bits")).value_or(8);
  if (type == "int" && bits == 8) return {};
  return unsupported_model(
      inputs->where(), "activations of type {} with {} bits can't be run; int with 8 can", shown(type), bits);
}

Result<void> read_compressed_tensors(const JsonView& json, QuantizationConfig& config) {
  constexpr std::array<std::string_view, 3> kFormats = {"pack-quantized", "int-quantized", "naive-quantized"};
  const std::string format = PAGODA_TRY(json.string("format")).value_or("");
  // "mixed-precision": several of the formats, each group's own.
  if (format != "mixed-precision" && std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
    return unsupported_model(json.where(),
                             "key 'format' is {}, which can't be run; pack-quantized and int-quantized can",
                             shown(format));
  }
  if (const auto sparsity = PAGODA_TRY(json.object("sparsity_config"))) {
    const std::string kind = PAGODA_TRY(sparsity->string("format")).value_or("dense");
    if (kind != "dense") {
      return unsupported_model(sparsity->where(), "sparse weights ({}) can't be run", shown(kind));
    }
  }
  const auto transforms = PAGODA_TRY(json.object("transform_config"));
  if (transforms && !json.find("transform_config")->empty()) {
    return unsupported_model(json.where(), "key 'transform_config' can't be run");
  }
  const auto groups = PAGODA_TRY(json.object("config_groups"));
  if (!groups) return corrupt_file(json.where(), "key 'config_groups' is missing");
  for (const auto& [name, ignored] : json.find("config_groups")->items()) {
    const auto group = PAGODA_TRY(groups->object(name.c_str()));
    if (!group) continue;
    const auto weights = PAGODA_TRY(group->object("weights"));
    if (!weights) continue;
    config.formats.push_back(PAGODA_TRY(read_weight_args(*weights)));
    PAGODA_TRY(check_activations(*group));
    if (config.formats.size() > kMaxConfigGroups) {
      return corrupt_file(json.where(), "'config_groups' has more than {} groups", kMaxConfigGroups);
    }
  }
  return {};
}

Result<void> read_bits_and_bytes(const JsonView& json, QuantizationConfig& config) {
  const bool four = PAGODA_TRY(json.boolean("load_in_4bit")).value_or(false);
  const bool eight = PAGODA_TRY(json.boolean("load_in_8bit")).value_or(false);
  if (four == eight) {
    return corrupt_file(json.where(), "keys 'load_in_4bit' and 'load_in_8bit' are both {}", four);
  }
  if (four) {
    return unsupported_model(json.where(), "bitsandbytes with 4 bits can't be run; load_in_8bit can");
  }
  config.formats = {{8, CodeFormat::kPerRow}};
  return {};
}

Result<QuantizationConfig> read_config(const JsonView& json, std::optional<QuantMethod> fallback) {
  QuantizationConfig config;
  config.where = json.where();
  const auto name = PAGODA_TRY(json.string("quant_method"));
  const auto method = name ? quant_method_from_name(*name) : fallback;
  if (!method) {
    return unsupported_model(
        json.where(), "the checkpoint is quantised with {}, which can't be run; {}, {}, {} and {} can",
        name ? shown(*name) : "an unnamed method (key 'quant_method')", quant_method_name(QuantMethod::kGptq),
        quant_method_name(QuantMethod::kAwq), quant_method_name(QuantMethod::kCompressedTensors),
        quant_method_name(QuantMethod::kBitsAndBytes));
  }
  config.method = *method;
  switch (*method) {
    case QuantMethod::kGptq:
      PAGODA_TRY(read_gptq(json, config));
      break;
    case QuantMethod::kAwq:
      PAGODA_TRY(read_awq(json, config));
      break;
    case QuantMethod::kCompressedTensors:
      PAGODA_TRY(read_compressed_tensors(json, config));
      break;
    case QuantMethod::kBitsAndBytes:
      PAGODA_TRY(read_bits_and_bytes(json, config));
      break;
  }
  return config;
}

}  // namespace

std::string code_format_name(const CodeFormat& format) {
  if (format.group_size > 0) return fmt::format("{}-bit g{}", format.bits, format.group_size);
  const bool per_row = format.group_size == CodeFormat::kPerRow;
  return fmt::format("{}-bit per {}", format.bits, per_row ? "channel" : "tensor");
}

std::string quantization_name(const QuantizationConfig& config) {
  std::string text(quant_method_name(config.method));
  if (!config.zeros_minus_one) text += "_v2";
  for (const CodeFormat& format : config.formats) text += " " + code_format_name(format);
  return text;
}

std::string_view quant_method_name(QuantMethod method) {
  switch (method) {
    case QuantMethod::kGptq:
      return "gptq";
    case QuantMethod::kAwq:
      return "awq";
    case QuantMethod::kCompressedTensors:
      return "compressed-tensors";
    case QuantMethod::kBitsAndBytes:
      return "bitsandbytes";
  }
  return "?";
}

std::optional<QuantMethod> quant_method_from_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, QuantMethod>, 9> kNames = {
      {{"gptq", QuantMethod::kGptq},
       {"gptq_marlin", QuantMethod::kGptq},
       {"gptq_bitblas", QuantMethod::kGptq},
       {"gptqmodel", QuantMethod::kGptq},
       {"awq", QuantMethod::kAwq},
       {"awq_marlin", QuantMethod::kAwq},
       {"compressed-tensors", QuantMethod::kCompressedTensors},
       {"compressed_tensors", QuantMethod::kCompressedTensors},
       {"bitsandbytes", QuantMethod::kBitsAndBytes}}};
  const std::string key = lower(std::string(name));
  for (const auto& [known, method] : kNames) {
    if (known == key) return method;
  }
  return std::nullopt;
}

Result<std::optional<QuantizationConfig>> read_quantization_config(const JsonView& config,
                                                                   const std::string& folder,
                                                                   std::optional<QuantMethod> asked) {
  for (const char* const key : {"quantization_config", "compression_config"}) {
    const auto found = PAGODA_TRY(config.object(key));
    if (!found) continue;
    const bool older = std::string_view(key) == "compression_config";
    return std::optional(
        PAGODA_TRY(read_config(*found, older ? std::optional(QuantMethod::kCompressedTensors) : asked)));
  }
  const std::array<std::pair<const char*, QuantMethod>, 2> files = {
      {{"/quantize_config.json", QuantMethod::kGptq}, {"/quant_config.json", QuantMethod::kAwq}}};
  for (const auto& [name, usual] : files) {
    const std::string path = folder + name;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    const nlohmann::json root = PAGODA_TRY(read_json_object(path));
    return std::optional(PAGODA_TRY(read_config(JsonView(root, path), asked ? asked : usual)));
  }
  return std::optional<QuantizationConfig>();
}

}  // namespace pagoda::model
