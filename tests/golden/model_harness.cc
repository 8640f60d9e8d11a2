#include "golden/model_harness.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/isa.h"

namespace pagoda::testing_support {

ModelHarness::ModelHarness(const std::filesystem::path& checkpoint, const HarnessOptions& options)
    : pool_(2) {
  auto opened = model::open_checkpoint(checkpoint.string(), options.quantization);
  if (!opened) throw std::runtime_error(opened.error().message);
  model::DecoderOptions decoder;
  decoder.precision = options.precision;
  decoder.kv_dtype = options.kv_dtype;
  decoder.activation_precision = options.activation_precision;
  decoder.max_tokens = decoder.max_logit_rows = max_tokens_ = options.max_tokens;
  decoder.max_context = options.max_context;
  auto loaded = model::load_decoder(*opened, decoder, pool_);
  if (!loaded) throw std::runtime_error(loaded.error().message);
  model_ = std::move(*loaded);
  const int blocks = static_cast<int>((options.max_context + kKvBlockTokens - 1) / kKvBlockTokens);
  kv_ = KvStorage(model_->kv_shape(), blocks);
  // Any order of blocks must do: take them backwards.
  for (int b = blocks - 1; b >= 0; --b) table_.push_back(BlockId{b});
}

std::vector<float> ModelHarness::logits(const std::vector<int32_t>& ids, bool restart) {
  return run(ids, restart, true);
}

std::vector<float> ModelHarness::last_logits(const std::vector<int32_t>& ids, bool restart) {
  return run(ids, restart, false);
}

std::vector<float> ModelHarness::run(const std::vector<int32_t>& ids, bool restart, bool all_rows) {
  if (restart) position_ = 0;
  const auto total = static_cast<int64_t>(ids.size());
  const int64_t stride = model_->logits_stride();
  std::vector<float> out;
  for (int64_t first = 0; first < total; first += max_tokens_) {
    const int64_t count = std::min(max_tokens_, total - first);
    std::vector<TokenId> tokens;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(TokenId{ids[static_cast<size_t>(first + i)]});
      if (all_rows || first + i == total - 1) rows.push_back(i);
    }
    kernels::AttentionSequence sequence;
    sequence.num_tokens = count;
    sequence.first_position = position_;
    sequence.block_table = table_;
    AlignedBuffer aligned(static_cast<size_t>(stride) * std::max<size_t>(rows.size(), 1) * sizeof(float));
    model_->forward({tokens, {&sequence, 1}, rows}, kv_, aligned.as<float>());
    for (size_t r = 0; r < rows.size(); ++r) {
      const float* row = aligned.as<float>() + static_cast<int64_t>(r) * stride;
      out.insert(out.end(), row, row + vocab_size());
    }
    position_ += count;
  }
  return out;
}

std::vector<double> log_softmax(const float* row, int64_t size) {
  const double max = *std::max_element(row, row + size);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(row[i] - max);
  const double shift = max + std::log(sum);
  std::vector<double> out(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) out[static_cast<size_t>(i)] = row[i] - shift;
  return out;
}

int32_t argmax_of(const float* row, int64_t size) {
  return static_cast<int32_t>(std::max_element(row, row + size) - row);
}

IsaScope::IsaScope(Isa isa) {
  kernels::set_isa(isa);
}
IsaScope::~IsaScope() {
  kernels::set_isa(detect_isa());
}

}  // namespace pagoda::testing_support
