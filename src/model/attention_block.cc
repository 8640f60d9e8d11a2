#include "model/attention_block.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/norm.h"

namespace pagoda::model {

AttentionBlock::AttentionBlock(const ModelConfig& config, const Size& size, ComputePool& pool)
    : config_(config),
      max_context_(size.max_context),
      qkv_(size.max_tokens, size.qkv_width),
      attended_(size.max_tokens, int64_t{config.num_heads} * config.head_dim),
      scratch_(size.max_tokens, size.max_context, config.num_heads, config.head_dim, pool.num_threads()),
      shared_prefixes_(size.max_tokens, config.num_heads, config.head_dim),
      positions_(static_cast<size_t>(size.max_tokens)),
      sequence_of_(static_cast<size_t>(size.max_tokens)) {
  if (config.learned_positions) return;
  const auto table = [&](const RopeConfig& rope) {
    return kernels::RopeTable(rope_inverse_frequencies(rope, config.rotary_dim), size.max_context,
                              rope.magnitude);
  };
  rope_ = table(config.rope);
  if (config.has_rope_sliding) rope_sliding_ = table(config.rope_sliding);
}

void AttentionBlock::begin(const ForwardInput& input) noexcept {
  sequences_ = input.sequences;
  for (size_t index = 0; index < sequences_.size(); ++index) {
    const kernels::AttentionSequence& sequence = sequences_[index];
    PAGODA_CHECK(sequence.first_position + sequence.num_tokens <= max_context_, "position {} of {}",
                 sequence.first_position + sequence.num_tokens, max_context_);
    for (int64_t i = 0; i < sequence.num_tokens; ++i) {
      const auto token = static_cast<size_t>(sequence.first_token + i);
      positions_[token] = sequence.first_position + i;
      sequence_of_[token] = static_cast<int32_t>(index);
    }
  }
  shared_prefixes_.find(sequences_);
}

void AttentionBlock::run(const AttentionWeights& weights, int layer, KvStorage& kv,
                         ResidualStream& stream) noexcept {
  const int64_t num_tokens = stream.num_tokens();
  const int64_t window = config_.layer_window[static_cast<size_t>(layer)];
  stream.project(weights.qkv, weights.norm, qkv_);
  const PagedKvView view = kv.layer(layer);
  finish_qkv(weights, layer, view, stream);
  const int64_t q_width = int64_t{config_.num_heads} * config_.head_dim;
  kernels::AttentionParams params;
  params.num_heads = config_.num_heads;
  params.scale = config_.attention_scale;
  params.window = window;
  params.softcap = config_.attention_softcap;
  // Heads are converted as they come, unless their columns have to change places.
  const kernels::ActivationSpec input = weights.out.input();
  const bool converts = config_.head_dim % kernels::kActivationGroup == 0 && input.order == nullptr;
  kernels::ActivationBuffer& converted = stream.converted();
  kernels::AttentionOutput out;
  out.rows = attended_.view(num_tokens, q_width);
  if (converts) {
    out.converted = &converted;
    converted.begin(input, num_tokens, q_width);
  }
  kernels::attention(
      {qkv_.view(num_tokens, q_width, weights.qkv.offset(0)), sequences_, view, &shared_prefixes_}, params,
      out, scratch_, stream.pool());
  if (!converts) kernels::convert_activations(out.rows, input, converted, stream.pool());
  stream.add(weights.out, converted, weights.post_norm);
}

// Per-head norms (Qwen 3, Gemma 3) and RoPE on q and k, in place; k and v go to the cache.
void AttentionBlock::finish_qkv(const AttentionWeights& weights, int layer, const PagedKvView& kv,
                                ResidualStream& stream) noexcept {
  const kernels::RopeTable& rope = rope_of(config_.layer_window[static_cast<size_t>(layer)]);
  const int64_t num_tokens = stream.num_tokens();
  const Projection& qkv = weights.qkv;
  // A row costs a few microseconds: 16 rows are a chunk worth the join.
  constexpr int64_t kRowsPerChunk = 16;
  const auto chunks = static_cast<int>((num_tokens + kRowsPerChunk - 1) / kRowsPerChunk);
  stream.pool().run(chunks, [&](int chunk, int) {
    const int64_t end = std::min(num_tokens, (chunk + 1) * kRowsPerChunk);
    for (int64_t token = chunk * kRowsPerChunk; token < end; ++token) {
      float* const row = qkv_.row(token);
      float* const k = row + qkv.offset(1);
      const int64_t position = positions_[static_cast<size_t>(token)];
      finish_heads(row + qkv.offset(0), config_.num_heads, weights.q_norm, rope, position);
      finish_heads(k, config_.num_kv_heads, weights.k_norm, rope, position);
      key_balance_.apply(layer, row + qkv.offset(0), k);
      const auto sequence = static_cast<size_t>(sequence_of_[static_cast<size_t>(token)]);
      kernels::write_kv_token({k, row + qkv.offset(2)}, position, sequences_[sequence].block_table, kv);
    }
  });
  if (!key_balance_.is_measuring()) return;
  for (int64_t token = 0; token < num_tokens; ++token)
    key_balance_.observe(layer, qkv_.row(token) + qkv.offset(1));
}

void AttentionBlock::finish_heads(float* heads, int count, const NormWeights& norm,
                                  const kernels::RopeTable& rope, int64_t position) noexcept {
  for (int head = 0; head < count; ++head, heads += config_.head_dim) {
    if (!norm.empty()) kernels::norm_row(heads, norm.view(), config_.head_dim, heads);
    if (!config_.learned_positions) kernels::rope_row(heads, rope, position);
  }
}

}  // namespace pagoda::model
