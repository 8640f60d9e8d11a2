#include "quantize/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/mmap_file.h"
#include "quantize/writer/output_file.h"

namespace pagoda::quantize {

uint64_t samples_hash(const Samples& samples) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  for (const auto& sample : samples) {
    mix(sample.size());
    for (const TokenId token : sample) mix(static_cast<uint64_t>(token.value));
  }
  return hash;
}

LayerHessians hessians_of(LayerStatistics& statistics) {
  LayerHessians hessians;
  for (size_t i = 0; i < statistics.size(); ++i) {
    hessians[i] = statistics[i]->hessian();
    statistics[i].reset();
  }
  return hessians;
}

Result<Calibration> Calibration::create(const model::Checkpoint& checkpoint, const Samples& samples,
                                        ComputePool& pool) {
  Calibration calibration;
  const model::ModelConfig& config = checkpoint.config;
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto embedding = PAGODA_TRY(
      checkpoint.tensors->matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size));
  int64_t longest = 0;
  for (const auto& sample : samples) {
    const auto count = static_cast<int64_t>(sample.size());
    longest = std::max(longest, count);
    calibration.samples_.push_back({calibration.states_.size(), count});
    for (const TokenId token : sample) {
      const size_t begin = calibration.states_.size();
      calibration.states_.resize(begin + hidden);
      embedding->read_values(token.value, 1, calibration.states_.data() + begin);
    }
  }
  for (float& value : calibration.states_) value *= config.embedding_scale;
  embedding->release_pages();
  calibration.config_ = &config;
  calibration.pool_ = &pool;
  calibration.runner_ = std::make_unique<model::LayerRunner>(config, longest, pool);
  return calibration;
}

Result<LayerStatistics> Calibration::collect(const Step& step) {
  const int64_t heads = int64_t{config_->num_heads} * config_->head_dim;
  const std::array<int64_t, 4> depths = {config_->hidden_size, heads, config_->hidden_size,
                                         config_->intermediate_size};
  LayerStatistics statistics;
  for (size_t i = 0; i < depths.size(); ++i) statistics[i] = std::make_unique<InputStatistics>(depths[i]);
  const auto observe = [&](model::LayerWeights::Input input, const kernels::Activations& x) {
    statistics[static_cast<size_t>(input)]->add(x, *pool_);
  };
  std::vector<float> rows;
  for (const Rows& sample : samples_) {
    const auto begin = states_.begin() + static_cast<std::ptrdiff_t>(sample.first);
    rows.assign(begin, begin + static_cast<std::ptrdiff_t>(sample.count * config_->hidden_size));
    runner_->run(rows.data(), sample.count, observe);
    PAGODA_TRY(step());
  }
  return statistics;
}

Result<void> Calibration::advance(const Step& step) {
  for (const Rows& sample : samples_) {
    runner_->run(states_.data() + sample.first, sample.count);
    PAGODA_TRY(step());
  }
  return {};
}

Result<void> Calibration::save(const std::string& path) const {
  OutputFile file = PAGODA_TRY(OutputFile::create(path));
  PAGODA_TRY(file.append(
      std::span(reinterpret_cast<const uint8_t*>(states_.data()), states_.size() * sizeof(float))));
  return file.commit();
}

Result<bool> Calibration::restore(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  const auto file = PAGODA_TRY(MmapFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() != states_.size() * sizeof(float)) {
    return make_error(ErrorKind::kCorruptFile, fmt::format("{} has {} bytes, not {}; remove its folder", path,
                                                           bytes.size(), states_.size() * sizeof(float)));
  }
  std::memcpy(states_.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace pagoda::quantize
