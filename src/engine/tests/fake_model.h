// A model whose logits are a hash of every token before them, as read back from the KV blocks: a wrong block,
// a missed copy or a block shared before it was filled changes the output.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/model.h"

namespace pagoda::engine {

// What a fake model says.
enum class FakeText : uint8_t {
  kRandom,     // never the same twice
  kRepeating,  // mostly a function of the last token, so that it goes round in circles, with slips
};

// Absorbs tokens one by one; gives the logits after them.
class HistoryHash {
 public:
  explicit HistoryHash(FakeText text = FakeText::kRandom) : text_(text) {}

  void absorb(int64_t token, int64_t position) {
    last_ = static_cast<size_t>(token);
    state_ =
        mix(state_ + static_cast<uint64_t>(token) * 0x9E3779B97F4A7C15 + static_cast<uint64_t>(position));
  }
  // Between -4 and 4; distinct enough for every sampler setting to matter. One token stands out in most
  // repeating text.
  void logits(std::span<float> row) const {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<float>(mix(state_ + i) >> 40) / static_cast<float>(1 << 21) - 4.0f;
    }
    constexpr uint64_t kSlipEvery = 24;
    if (text_ == FakeText::kRepeating && state_ % kSlipEvery != 0) row[(last_ * 7 + 3) % row.size()] += 20.0f;
  }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  FakeText text_;
  uint64_t state_ = 1;
  size_t last_ = 0;
};

class FakeModel final : public model::Model {
 public:
  explicit FakeModel(int64_t vocab_size, FakeText text = FakeText::kRandom) : text_(text) {
    config_.vocab_size = vocab_size;
  }
  FakeText text() const { return text_; }

  const model::ModelConfig& config() const override { return config_; }
  KvShape kv_shape() const override {
    return {.num_layers = 2, .num_kv_heads = 1, .head_dim = 2, .dtype = DType::kF32};
  }
  int64_t logits_stride() const override { return (config_.vocab_size + 15) / 16 * 16; }

  void forward(const model::ForwardInput& input, KvStorage& kv, float* logits) noexcept override {
    if (on_forward) on_forward(input);
    check_layout(input);
    // The last sequence first: one that relied on blocks filled by an earlier one in this step would read old
    // contents.
    for (size_t i = input.sequences.size(); i-- > 0;) run(input, input.sequences[i], kv, logits);
  }

  std::function<void(const model::ForwardInput&)> on_forward;

 private:
  void check_layout(const model::ForwardInput& input) const {
    int64_t row = 0;
    for (const auto& s : input.sequences) {
      PAGODA_CHECK(s.first_token == row && s.num_tokens > 0);
      PAGODA_CHECK(static_cast<int64_t>(s.block_table.size()) * kKvBlockTokens >=
                   s.first_position + s.num_tokens);
      row += s.num_tokens;
    }
    PAGODA_CHECK(row == static_cast<int64_t>(input.tokens.size()));
    PAGODA_CHECK(std::ranges::is_sorted(input.logit_rows, std::less_equal{}) || input.logit_rows.size() < 2);
  }

  // The token goes to the values of layer 0, its position to the keys of layer 1.
  static float& token_slot(KvStorage& kv, BlockId block, int64_t slot) {
    return reinterpret_cast<float*>(kv.layer(0).v(block, 0))[slot * 2];
  }
  static float& position_slot(KvStorage& kv, BlockId block, int64_t slot) {
    return reinterpret_cast<float*>(kv.layer(1).k(block, 0))[kKvBlockTokens + slot];
  }

  void run(const model::ForwardInput& input, const kernels::AttentionSequence& s, KvStorage& kv,
           float* logits) {
    const auto block_of = [&](int64_t position) {
      return s.block_table[static_cast<size_t>(position / kKvBlockTokens)];
    };
    const int64_t end = s.first_position + s.num_tokens;
    for (int64_t position = s.first_position; position < end; ++position) {
      const auto row = static_cast<size_t>(s.first_token + position - s.first_position);
      const int64_t slot = position % kKvBlockTokens;
      token_slot(kv, block_of(position), slot) = static_cast<float>(input.tokens[row].value);
      position_slot(kv, block_of(position), slot) = static_cast<float>(position);
    }
    HistoryHash hash(text_);
    auto wanted = std::ranges::lower_bound(input.logit_rows, s.first_token);
    for (int64_t position = 0; position < end; ++position) {
      const int64_t slot = position % kKvBlockTokens;
      hash.absorb(static_cast<int64_t>(token_slot(kv, block_of(position), slot)),
                  static_cast<int64_t>(position_slot(kv, block_of(position), slot)));
      const int64_t row = s.first_token + position - s.first_position;
      if (wanted == input.logit_rows.end() || *wanted != row) continue;
      float* out = logits + (wanted - input.logit_rows.begin()) * logits_stride();
      hash.logits({out, static_cast<size_t>(config_.vocab_size)});
      ++wanted;
    }
  }

  FakeText text_;
  model::ModelConfig config_;
};

}  // namespace pagoda::engine
