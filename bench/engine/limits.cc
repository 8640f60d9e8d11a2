#include "engine/limits.h"

#include <regex>
#include <string>

namespace pagoda::bench {
namespace {

double unit_peak(WeightUnit unit, const ComputePeaks& peaks) {
  switch (unit) {
    case WeightUnit::kInt8:
      return peaks.int8;
    case WeightUnit::kBF16:
      return peaks.bf16;
    case WeightUnit::kF32:
      break;
  }
  return peaks.f32;
}

// Where a file mixes layouts, the products of the quantised ones weigh most.
WeightUnit unit_of(const std::string& layouts) {
  if (layouts.find("w4") != std::string::npos || layouts.find("w8") != std::string::npos)
    return WeightUnit::kInt8;
  return layouts.find("bf16") != std::string::npos ? WeightUnit::kBF16 : WeightUnit::kF32;
}

// "...; 13 % of the activations in 16 bits, the rest in 8": 0.13.
double wide_share(const std::string& layouts) {
  static const std::regex pattern("([0-9.]+) % of the activations in 16 bits");
  std::smatch match;
  return std::regex_search(layouts, match, pattern) ? std::stod(match[1]) / 100 : 0;
}

}  // namespace

ModelCost model_cost(const model::ModelConfig& config, const KvShape& kv, double packed_bytes,
                     const std::string& layouts) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const double q = static_cast<double>(config.num_heads) * config.head_dim;
  const double kv_width = static_cast<double>(config.num_kv_heads) * config.head_dim;
  const double layer =
      hidden * (q + 2 * kv_width) + q * hidden + 3 * hidden * static_cast<double>(config.intermediate_size);
  ModelCost cost;
  cost.layer_parameters = layer * config.num_layers;
  cost.head_parameters = hidden * static_cast<double>(config.vocab_size);
  cost.weight_bytes = packed_bytes;
  if (!config.tied_embeddings) {
    // The table is not streamed. Its share of the bytes is taken to be its share of the parameters.
    cost.weight_bytes *=
        (cost.layer_parameters + cost.head_parameters) / (cost.layer_parameters + 2 * cost.head_parameters);
  }
  cost.kv_bytes_per_token = static_cast<double>(kv_block_bytes(kv)) / kKvBlockTokens;
  cost.attention_flops_per_pair = 4 * q * config.num_layers;
  cost.products_each = 1 + wide_share(layouts);
  cost.unit = unit_of(layouts);
  return cost;
}

DecodeLimit decode_limit(const ModelCost& cost, int batch, int64_t context, const ComputePeaks& peaks,
                         double bandwidth) {
  const double pairs = static_cast<double>(batch) * static_cast<double>(context);
  DecodeLimit limit;
  limit.weights_s = cost.weight_bytes / bandwidth;
  limit.memory_s = limit.weights_s + pairs * cost.kv_bytes_per_token / bandwidth;
  const double products = 2 * (cost.layer_parameters + cost.head_parameters) * batch * cost.products_each;
  limit.compute_s =
      products / unit_peak(cost.unit, peaks) + pairs * cost.attention_flops_per_pair / peaks.bf16;
  return limit;
}

double prefill_limit_s(const ModelCost& cost, int64_t tokens, const ComputePeaks& peaks) {
  const auto n = static_cast<double>(tokens);
  const double products = 2 * (cost.layer_parameters * n + cost.head_parameters) * cost.products_each;
  const double pairs = n * (n + 1) / 2;
  return products / unit_peak(cost.unit, peaks) + pairs * cost.attention_flops_per_pair / peaks.bf16;
}

}  // namespace pagoda::bench
