#include "scripted/scripted_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace pagoda::scripted {
namespace {

constexpr int kHeadDim = 2;
constexpr float kScripted = 20.0f;  // above the others by enough to be drawn at temperature 1

// The slot of one position: the first value of its V row holds the token id.
uint8_t* slot(const kernels::AttentionSequence& sequence, int64_t position, PagedKvView kv) {
  const BlockId block = sequence.block_table[static_cast<size_t>(position / kKvBlockTokens)];
  return kv.v(block, 0) + static_cast<size_t>(position % kKvBlockTokens) * kHeadDim * sizeof(float);
}

}  // namespace

ScriptedModel::ScriptedModel(std::shared_ptr<const ScriptTable> table, int64_t max_positions)
    : table_(std::move(table)) {
  config_.vocab_size = table_->vocab_size();
  config_.max_positions = max_positions;
  config_.num_layers = 1;
  config_.num_heads = config_.num_kv_heads = 1;
  config_.head_dim = kHeadDim;
  config_.eos = {kEos};
}

KvShape ScriptedModel::kv_shape() const {
  return {1, 1, kHeadDim, DType::kF32};
}

int64_t ScriptedModel::logits_stride() const {
  return (config_.vocab_size + 15) / 16 * 16;
}

std::vector<TokenId> ScriptedModel::context(const kernels::AttentionSequence& sequence, int64_t length,
                                            PagedKvView kv) const {
  std::vector<TokenId> ids(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i)
    std::memcpy(&ids[static_cast<size_t>(i)], slot(sequence, i, kv), sizeof(TokenId));
  return ids;
}

void ScriptedModel::forward(const model::ForwardInput& input, KvStorage& storage, float* logits) noexcept {
  const PagedKvView kv = storage.layer(0);
  int delay_ms = 0;
  for (const auto& sequence : input.sequences) {
    for (int64_t i = 0; i < sequence.num_tokens; ++i) {
      const TokenId id = input.tokens[static_cast<size_t>(sequence.first_token + i)];
      std::memcpy(slot(sequence, sequence.first_position + i, kv), &id, sizeof(TokenId));
    }
    const auto ids = context(sequence, sequence.first_position + sequence.num_tokens, kv);
    delay_ms = std::max(delay_ms, table_->delay_ms(ids));
  }
  auto sequence = input.sequences.begin();
  for (size_t i = 0; i < input.logit_rows.size(); ++i) {
    const int64_t row = input.logit_rows[i];
    while (row >= sequence->first_token + sequence->num_tokens) ++sequence;
    const auto ids = context(*sequence, sequence->first_position + row - sequence->first_token + 1, kv);
    float* out = logits + static_cast<int64_t>(i) * logits_stride();
    for (int64_t id = 0; id < config_.vocab_size; ++id) out[id] = -static_cast<float>(id % 97) / 10.0f;
    for (const TokenId candidate : table_->next(ids)) out[candidate.value] = kScripted;
  }
  if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
}

}  // namespace pagoda::scripted
