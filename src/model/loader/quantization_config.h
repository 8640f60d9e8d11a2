// What a Hugging Face folder says about how its weights are quantised: quantization_config in config.json, or
// a file of its own, as older tools wrote it (quantize_config.json, quant_config.json).
//
// Which matrices are quantised is not read here but seen in the files: modules_to_not_convert, ignore lists
// and a quantised or plain lm_head all show in the tensors that are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/loader/json_file.h"

namespace pagoda::model {

enum class QuantMethod : uint8_t { kGptq, kAwq, kCompressedTensors, kBitsAndBytes };
// As quant_method and --quantization spell it: "gptq", "awq", "compressed-tensors", "bitsandbytes".
std::string_view quant_method_name(QuantMethod method);
// Also by the names of vLLM's kernels ("gptq_marlin", "awq_marlin") and of tools that write the same layout.
std::optional<QuantMethod> quant_method_from_name(std::string_view name);

// How the codes of some matrices are made: bits and columns that share a scale.
struct CodeFormat {
  static constexpr int64_t kPerRow = -1;     // a scale for each row
  static constexpr int64_t kPerMatrix = -2;  // one scale
  int bits = 0;
  int64_t group_size = kPerRow;

  bool operator==(const CodeFormat&) const = default;
  // The columns that share a scale in a matrix of that depth.
  int64_t columns(int64_t depth) const { return group_size > 0 && group_size < depth ? group_size : depth; }
};
// "4-bit g128", "8-bit per channel".
std::string code_format_name(const CodeFormat& format);

struct QuantizationConfig {
  QuantMethod method = QuantMethod::kGptq;
  // One, but for compressed-tensors, where a model may mix them.
  std::vector<CodeFormat> formats;
  // GPTQ: act-order was on, so that every matrix has its g_idx.
  bool needs_group_index = false;
  // GPTQ: zero points are stored minus one (format "gptq"), or as they are ("gptq_v2").
  bool zeros_minus_one = true;
  std::string where;  // the file, for messages
};

// "gptq 4-bit g128", "gptq_v2 8-bit per channel": all that the codes in the files mean.
std::string quantization_name(const QuantizationConfig& config);

// nullopt when nothing says that the folder is quantised. `asked` is what --quantization names, or empty: it
// stands in for a quant_method that the files lack. kUnsupportedModel for methods and variants that can't be
// run, in one line that names the key and its value.
Result<std::optional<QuantizationConfig>> read_quantization_config(const JsonView& config,
                                                                   const std::string& folder,
                                                                   std::optional<QuantMethod> asked);

}  // namespace pagoda::model
