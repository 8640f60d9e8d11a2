#include "quantize/awq_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "quantize/awq.h"

namespace pagoda::quantize {
namespace {

using Input = model::LayerWeights::Input;

struct Weights {
  Linear linear;
  std::vector<float> values;
};

class Scaler {
 public:
  Scaler(const AwqLayer& layer, WorkingSource& working, ComputePool& pool)
      : config_(layer.config),
        prefix_(fmt::format("model.layers.{}.", layer.index)),
        linears_(layer_linears(layer.config, layer.index)),
        options_(layer.options),
        working_(working),
        pool_(pool) {}

  Result<void> scale(Input which, AwqInput& input);

 private:
  Result<std::vector<Weights>> weights_of(Input which) const;
  Result<void> divide_source(Input which, const std::vector<float>& scales);
  Result<void> divide_norm(const std::string& stem, const std::vector<float>& scales);
  Result<void> divide_rows(const std::string& stem, const std::vector<float>& scales);
  // The output of v that channel i of o's input is.
  size_t value_channel(size_t i) const {
    const auto head_dim = static_cast<size_t>(config_.head_dim);
    const auto shared = static_cast<size_t>(config_.num_heads / config_.num_kv_heads);
    return i / head_dim / shared * head_dim + i % head_dim;
  }
  void share_between_heads(std::vector<float>& means) const;

  const model::ModelConfig& config_;
  std::string prefix_;
  std::vector<Linear> linears_;
  const Options& options_;
  WorkingSource& working_;
  ComputePool& pool_;
};

Result<std::vector<Weights>> Scaler::weights_of(Input which) const {
  std::vector<Weights> all;
  for (const Linear& linear : linears_) {
    if (linear.input != which) continue;
    const auto reader = PAGODA_TRY(working_.matrix(linear.stem + ".weight", linear.rows, linear.depth));
    Weights& weights = all.emplace_back(Weights{linear, {}});
    weights.values.resize(static_cast<size_t>(linear.rows * linear.depth));
    reader->read_values(0, linear.rows, weights.values.data());
  }
  return all;
}

// Heads that attend to the same values must agree on their scale.
void Scaler::share_between_heads(std::vector<float>& means) const {
  std::vector<float> sums(static_cast<size_t>(config_.num_kv_heads * config_.head_dim));
  for (size_t i = 0; i < means.size(); ++i) sums[value_channel(i)] += means[i];
  const auto shared = static_cast<float>(config_.num_heads / config_.num_kv_heads);
  for (size_t i = 0; i < means.size(); ++i) means[i] = sums[value_channel(i)] / shared;
}

Result<void> Scaler::divide_norm(const std::string& stem, const std::vector<float>& scales) {
  const float added = config_.norm_weight_plus_one ? 1.0f : 0.0f;
  auto weight = PAGODA_TRY(working_.vector(stem + ".weight", config_.hidden_size));
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = (weight[i] + added) / scales[i] - added;
  working_.set_vector(stem + ".weight", std::move(weight));
  if (config_.norm_kind != kernels::NormKind::kLayer) return {};
  auto bias = PAGODA_TRY(working_.vector(stem + ".bias", config_.hidden_size));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] /= scales[i];
  working_.set_vector(stem + ".bias", std::move(bias));
  return {};
}

Result<void> Scaler::divide_rows(const std::string& stem, const std::vector<float>& scales) {
  const auto found = std::find_if(linears_.begin(), linears_.end(),
                                  [&](const Linear& linear) { return linear.stem == stem; });
  const int64_t rows = found->rows, depth = found->depth;
  const auto reader = PAGODA_TRY(working_.matrix(stem + ".weight", rows, depth));
  std::vector<float> values(static_cast<size_t>(rows * depth));
  reader->read_values(0, rows, values.data());
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t k = 0; k < depth; ++k)
      values[static_cast<size_t>(n * depth + k)] /= scales[static_cast<size_t>(n)];
  }
  working_.set_matrix(stem + ".weight", rows, depth, std::move(values));
  const bool has_bias = found->input == Input::kQkv ? config_.qkv_bias : config_.mlp_bias;
  if (!has_bias) return {};
  auto bias = PAGODA_TRY(working_.vector(stem + ".bias", rows));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] /= scales[i];
  working_.set_vector(stem + ".bias", std::move(bias));
  return {};
}

Result<void> Scaler::divide_source(Input which, const std::vector<float>& scales) {
  switch (which) {
    case Input::kQkv:
      return divide_norm(prefix_ + "input_layernorm", scales);
    case Input::kFeedForward:
      return divide_norm(
          prefix_ + (config_.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm"), scales);
    case Input::kDown:
      return divide_rows(prefix_ + "mlp.up_proj", scales);
    case Input::kAttentionOut:
      break;
  }
  std::vector<float> values(static_cast<size_t>(config_.num_kv_heads * config_.head_dim));
  for (size_t i = 0; i < scales.size(); ++i) values[value_channel(i)] = scales[i];
  return divide_rows(prefix_ + "self_attn.v_proj", values);
}

Result<void> Scaler::scale(Input which, AwqInput& input) {
  if (which == Input::kDown && !config_.gated_feed_forward) return {};
  auto matrices = PAGODA_TRY(weights_of(which));
  std::vector<AwqMatrix> views;
  for (const Weights& matrix : matrices) views.push_back({matrix.values.data(), matrix.linear.rows});
  const int64_t depth = matrices.front().linear.depth;
  const CodedShape shape = options_.shape({"", 0, depth, which});
  input.weights = relative_weights(views, shape);
  if (which == Input::kAttentionOut) {
    share_between_heads(input.magnitudes);
    share_between_heads(input.weights);
  }
  const std::vector<float> scales = awq_scales(views, input, shape, pool_);
  for (Weights& matrix : matrices) {
    for (size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] *= scales[i % scales.size()];
    working_.set_matrix(matrix.linear.stem + ".weight", matrix.linear.rows, depth, std::move(matrix.values));
  }
  PAGODA_TRY(divide_source(which, scales));
  for (int64_t k = 0; k < depth; ++k) {
    const float scale = scales[static_cast<size_t>(k)];
    float* const row = input.hessian.row(k);
    for (size_t j = 0; j < scales.size(); ++j) row[j] /= scale * scales[j];
  }
  return {};
}

}  // namespace

Result<LayerHessians> scale_layer(const AwqLayer& layer, LayerStatistics& statistics, WorkingSource& working,
                                  ComputePool& pool) {
  Scaler scaler(layer, working, pool);
  LayerHessians hessians;
  for (size_t i = 0; i < statistics.size(); ++i) {
    AwqInput input{statistics[i]->hessian(), statistics[i]->mean_magnitudes(), {}};
    statistics[i].reset();
    PAGODA_TRY(scaler.scale(static_cast<Input>(i), input));
    hessians[i] = std::move(input.hessian);
  }
  return hessians;
}

}  // namespace pagoda::quantize
