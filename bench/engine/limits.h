// What a model costs per token, and the shortest times that the machine allows for it.
#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "machine/peaks.h"
#include "model/config.h"
#include "tensor/kv_storage.h"

namespace pagoda::bench {

enum class WeightUnit : uint8_t { kInt8, kBF16, kF32 };

struct ModelCost {
  double weight_bytes = 0;      // read to produce one token: all packed weights, less an embedding table that
                                // is not the output head too
  double layer_parameters = 0;  // multiplied for each token
  double head_parameters = 0;   // multiplied for each token whose logits are wanted
  double kv_bytes_per_token = 0;
  double attention_flops_per_pair = 0;  // for each (new token, token it sees), all layers and heads
  double products_each = 1;  // int8 products per weight and token; 2 where all activations have 16 bits
  WeightUnit unit = WeightUnit::kInt8;
};

// `packed_bytes` and `layouts` are Decoder::weight_bytes() and layout_summary().
ModelCost model_cost(const model::ModelConfig& config, const KvShape& kv, double packed_bytes,
                     const std::string& layouts);

// One step that decodes `batch` sequences of `context` tokens each.
struct DecodeLimit {
  double memory_s = 0;   // weights once, and every sequence's KV
  double weights_s = 0;  // weights alone
  double compute_s = 0;  // products at the peak of their unit, attention at the bf16 peak
  double seconds() const { return memory_s > compute_s ? memory_s : compute_s; }
};
DecodeLimit decode_limit(const ModelCost& cost, int batch, int64_t context, const ComputePeaks& peaks,
                         double bandwidth);

// One prompt of `tokens` tokens, of which one row of logits is computed.
double prefill_limit_s(const ModelCost& cost, int64_t tokens, const ComputePeaks& peaks);

}  // namespace pagoda::bench
