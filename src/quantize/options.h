// What `pagoda quantize` is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/decoder_weights.h"
#include "quantize/coded_matrix.h"

namespace pagoda::quantize {

enum class Method : uint8_t {
  kRtn,   // round to nearest, stored as GPTQ does
  kGptq,  // gptq.h
  kAwq,   // awq.h
  kInt8,  // W8A8: a scale for each output, activations rounded at run time (compressed-tensors)
};
std::string_view method_name(Method method);
std::optional<Method> method_from_name(std::string_view name);

enum class Rounding : uint8_t {
  kGptq,     // gptq.h
  kNearest,  // to grids that are fitted to what the inputs weigh
};

// A matrix that is quantised: every projection of a layer.
struct Linear {
  std::string stem;  // "model.layers.0.self_attn.q_proj"
  int64_t rows = 0, depth = 0;
  model::LayerWeights::Input input = model::LayerWeights::Input::kQkv;
};

struct Options {
  static constexpr int64_t kWholeRow = -1;
  Method method = Method::kRtn;
  int bits = 4;
  int64_t group_size = 128;  // columns that share a scale; kWholeRow: all
  bool symmetric = false;
  bool act_order = false;               // GPTQ: the most active inputs first
  Rounding rounding = Rounding::kGptq;  // AWQ: of the scaled matrices

  bool calibrated() const { return method == Method::kGptq || method == Method::kAwq; }
  bool coded_in_groups() const { return method != Method::kInt8; }
  int64_t columns(int64_t depth) const { return group_size == kWholeRow ? depth : group_size; }
  CodedShape shape(const Linear& linear) const {
    return {linear.rows, linear.depth, columns(linear.depth), {bits, symmetric}};
  }
};
// "rtn 4-bit g128", "int8 per channel".
std::string options_name(const Options& options);

std::vector<Linear> layer_linears(const model::ModelConfig& config, int layer);

// kInvalidArgument naming the flag: numbers that the method doesn't have, groups that don't divide a matrix.
Result<void> check_options(const Options& options, const model::ModelConfig& config);

}  // namespace pagoda::quantize
