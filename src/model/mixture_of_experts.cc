#include "model/mixture_of_experts.h"

#include <algorithm>

#include "kernels/gated_activation.h"
#include "kernels/router.h"

namespace pagoda::model {
namespace {

// Tokens whose experts run together: enough for dozens of rows an expert, few enough for scratch of some 10
// MB.
constexpr int64_t kPieceTokens = 512;
constexpr int64_t kTokensPerChunk = 16;  // of a pass over tokens: some 10 us

}  // namespace

MixtureOfExperts::MixtureOfExperts(const ModelConfig& config, int64_t max_tokens, const Widths& widths)
    : moe_(config.moe),
      activation_(config.activation),
      piece_tokens_(std::min(max_tokens, kPieceTokens)),
      logits_(max_tokens, config.moe.num_experts) {
  const int64_t pairs = piece_tokens_ * moe_.experts_per_token;
  expert_.resize(static_cast<size_t>(pairs));
  weight_.resize(static_cast<size_t>(pairs));
  pair_.resize(static_cast<size_t>(pairs));
  token_.resize(static_cast<size_t>(pairs));
  starts_.resize(static_cast<size_t>(moe_.num_experts) + 1);
  jobs_.reserve(2 * static_cast<size_t>(moe_.num_experts));
  inputs_ = kernels::ActivationBuffer(pairs, config.hidden_size);
  gated_ = kernels::ActivationBuffer(pairs, moe_.intermediate_size);
  gate_up_ = Rows(pairs, widths.gate_up);
  out_ = Rows(pairs, widths.down);
}

void MixtureOfExperts::run(const ExpertsWeights& weights, const NormWeights& norm,
                           const NormWeights& post_norm, ResidualStream& stream) noexcept {
  // The router's input is the normed rows as floats: that of the experts too, before it is converted.
  stream.read(norm, weights.router.input());
  const kernels::Activations& x = stream.converted().view();
  weights.router.run(x, logits_.row(0), logits_.stride, false, stream.pool());
  const kernels::ConstRowsView normed(x.f32, x.rows, stream.width(), x.depth);
  for (int64_t first = 0; first < stream.num_tokens(); first += piece_tokens_) {
    const Piece piece{first, std::min(piece_tokens_, stream.num_tokens() - first)};
    choose(piece, stream.pool());
    sort_by_expert(piece);
    multiply(weights, normed, stream);
    combine(piece, stream);
  }
  stream.add_block_out(post_norm);
}

void MixtureOfExperts::choose(const Piece& piece, ComputePool& pool) noexcept {
  const auto experts = static_cast<size_t>(moe_.num_experts),
             each = static_cast<size_t>(moe_.experts_per_token);
  const auto chunks = static_cast<int>((piece.count + kTokensPerChunk - 1) / kTokensPerChunk);
  pool.run(chunks, [&](int chunk, int) {
    const int64_t end = std::min(piece.count, (chunk + 1) * kTokensPerChunk);
    for (int64_t token = chunk * kTokensPerChunk; token < end; ++token) {
      const size_t at = static_cast<size_t>(token) * each;
      kernels::choose_experts({logits_.row(piece.first + token), experts}, moe_.renormalise,
                              {std::span(expert_).subspan(at, each), std::span(weight_).subspan(at, each)});
    }
  });
}

// Pairs of one expert stay in the order of their tokens.
void MixtureOfExperts::sort_by_expert(const Piece& piece) noexcept {
  const auto pairs = static_cast<size_t>(piece.count * moe_.experts_per_token);
  std::fill(starts_.begin(), starts_.end(), 0);
  for (size_t i = 0; i < pairs; ++i) ++starts_[static_cast<size_t>(expert_[i]) + 1];
  for (size_t expert = 1; expert < starts_.size(); ++expert) starts_[expert] += starts_[expert - 1];
  for (size_t i = 0; i < pairs; ++i) {
    const auto at = static_cast<size_t>(starts_[static_cast<size_t>(expert_[i])]++);
    pair_[i] = static_cast<int32_t>(at);
    token_[at] = static_cast<int32_t>(piece.first + static_cast<int64_t>(i) / moe_.experts_per_token);
  }
  // Each start has moved to the next one.
  std::copy_backward(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_[0] = 0;
}

void MixtureOfExperts::multiply(const ExpertsWeights& weights, kernels::ConstRowsView normed,
                                ResidualStream& stream) noexcept {
  const Projection& gate_up = weights.gate_up.front();
  const Projection& down = weights.down.front();
  const int64_t pairs = starts_.back(), width = moe_.intermediate_size;
  kernels::convert_rows(normed, std::span(token_).first(static_cast<size_t>(pairs)), gate_up.input(), inputs_,
                        stream.pool());
  stream.observe(gate_up, inputs_);
  run_experts(weights.gate_up, inputs_.view(), gate_up_, stream.pool());
  kernels::gated_activation_convert(
      activation_,
      {gate_up_.view(pairs, width, gate_up.offset(0)), gate_up_.view(pairs, width, gate_up.offset(1))},
      down.input(), gated_, stream.pool());
  stream.observe(down, gated_);
  run_experts(weights.down, gated_.view(), out_, stream.pool());
}

void MixtureOfExperts::run_experts(const std::vector<Projection>& projections, const kernels::Activations& x,
                                   Rows& out, ComputePool& pool) noexcept {
  jobs_.clear();
  for (size_t expert = 0; expert < projections.size(); ++expert) {
    const int64_t first = starts_[expert], rows = starts_[expert + 1] - first;
    if (rows == 0) continue;
    const auto weights = projections[expert].weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      jobs_.push_back({&weights[i], first, rows, projections[expert].column(i)});
    }
  }
  kernels::grouped_matmul(x, jobs_, out.view(x.rows, out.stride), pool);
}

void MixtureOfExperts::combine(const Piece& piece, ResidualStream& stream) noexcept {
  const auto each = static_cast<size_t>(moe_.experts_per_token);
  const int64_t width = stream.width();
  Rows& block_out = stream.block_out();
  const auto chunks = static_cast<int>((piece.count + kTokensPerChunk - 1) / kTokensPerChunk);
  stream.pool().run(chunks, [&](int chunk, int) {
    const int64_t end = std::min(piece.count, (chunk + 1) * kTokensPerChunk);
    for (int64_t token = chunk * kTokensPerChunk; token < end; ++token) {
      float* const y = block_out.row(piece.first + token);
      std::fill_n(y, width, 0.0f);
      for (size_t choice = static_cast<size_t>(token) * each, last = choice + each; choice < last; ++choice) {
        const float* const part = out_.row(pair_[choice]);
        const float weight = weight_[choice];
        for (int64_t i = 0; i < width; ++i) y[i] += weight * part[i];
      }
    }
  });
}

}  // namespace pagoda::model
