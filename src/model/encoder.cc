#include "model/encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/activations.h"
#include "kernels/encoder.h"
#include "kernels/norm.h"
#include "model/projection.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::model {
namespace {

using kernels::ActivationBuffer;
using kernels::RowsView;

constexpr int64_t kBatchSequences = 256;

struct NormWeights {
  std::vector<float> weight, bias;
};

struct EncoderLayer {
  Projection qkv, attention_out, up, down;
  NormWeights attention_norm, output_norm;
};

struct EncoderWeights {
  std::vector<float> words, positions, type;  // type: row 0 of the token types
  NormWeights norm;
  std::vector<EncoderLayer> layers;
  size_t bytes = 0;
};

// A matrix of floats whose rows are 64-byte aligned.
struct Matrix {
  Matrix(int64_t rows, int64_t columns)
      : stride(columns), data(static_cast<size_t>(rows * columns) * sizeof(float)) {}
  RowsView view(int64_t rows, int64_t width) noexcept { return {data.as<float>(), rows, width, stride}; }
  int64_t stride;
  AlignedBuffer data;
};

class BertEncoder final : public Encoder {
 public:
  BertEncoder(const EncoderConfig& config, const EncoderOptions& options, EncoderWeights weights,
              ComputePool& pool);

  int64_t width() const override { return config_.hidden_size; }
  int64_t max_tokens() const override { return options_.max_tokens; }
  int64_t batch_tokens() const override { return options_.batch_tokens; }
  int64_t batch_sequences() const override { return kBatchSequences; }
  size_t weight_bytes() const override { return weights_.bytes; }
  void embed(std::span<const EmbedTask> batch) noexcept override;

 private:
  int64_t gather(std::span<const EmbedTask> batch) noexcept;
  void run_layer(const EncoderLayer& layer, int64_t rows) noexcept;
  void project(const Projection& projection, RowsView input, RowsView out, bool accumulate) noexcept;
  void norm(RowsView x, const NormWeights& weights) noexcept {
    kernels::norm_rows(
        x, {kernels::NormKind::kLayer, config_.layer_norm_eps, weights.weight.data(), weights.bias.data()},
        pool_);
  }

  EncoderConfig config_;
  EncoderOptions options_;
  EncoderWeights weights_;
  ComputePool& pool_;
  Matrix hidden_, qkv_, attended_, up_;
  ActivationBuffer converted_;
  kernels::EncoderAttentionScratch attention_scratch_;
  std::vector<kernels::RowRange> ranges_;
  Pooler pooler_;
};

BertEncoder::BertEncoder(const EncoderConfig& config, const EncoderOptions& options, EncoderWeights weights,
                         ComputePool& pool)
    : config_(config),
      options_(options),
      weights_(std::move(weights)),
      pool_(pool),
      hidden_(options.batch_tokens, round_up(config.hidden_size, kPanelRows)),
      qkv_(options.batch_tokens, round_up(3 * config.hidden_size, kPanelRows)),
      attended_(options.batch_tokens, round_up(config.hidden_size, kPanelRows)),
      up_(options.batch_tokens, round_up(config.intermediate_size, kPanelRows)),
      converted_(options.batch_tokens, std::max(config.hidden_size, config.intermediate_size)),
      attention_scratch_(options.max_tokens, config.head_dim(), pool.num_threads()),
      pooler_(options.pooling, config.hidden_size) {
  ranges_.reserve(kBatchSequences);
}

int64_t BertEncoder::gather(std::span<const EmbedTask> batch) noexcept {
  const int64_t width = config_.hidden_size;
  int64_t row = 0;
  ranges_.clear();
  for (const EmbedTask& task : batch) {
    const auto count = static_cast<int64_t>(task.tokens.size());
    PAGODA_CHECK(count >= 1 && count <= options_.max_tokens && row + count <= options_.batch_tokens,
                 "{} tokens behind {}", count, row);
    ranges_.push_back({row, count});
    for (int64_t i = 0; i < count; ++i, ++row) {
      const int64_t id = task.tokens[static_cast<size_t>(i)].value;
      PAGODA_CHECK(id >= 0 && id < config_.vocab_size, "token {}", id);
      const float* const word = weights_.words.data() + id * width;
      const float* const position = weights_.positions.data() + i * width;
      float* const out = hidden_.view(row + 1, width).row(row);
      for (int64_t k = 0; k < width; ++k) {
        out[k] = word[k] + weights_.type[static_cast<size_t>(k)] + position[k];
      }
    }
  }
  return row;
}

void BertEncoder::project(const Projection& projection, RowsView input, RowsView out,
                          bool accumulate) noexcept {
  for (size_t i = 0; i < projection.num_inputs(); ++i) {
    kernels::convert_activations(input, projection.input(i), converted_, pool_);
    projection.run(converted_.view(), out.data, out.stride, accumulate, pool_);
  }
}

void BertEncoder::run_layer(const EncoderLayer& layer, int64_t rows) noexcept {
  const int64_t width = config_.hidden_size;
  const RowsView hidden = hidden_.view(rows, width), attended = attended_.view(rows, width);
  project(layer.qkv, hidden, qkv_.view(rows, 3 * width), false);
  const kernels::EncoderHeads heads{config_.num_heads, config_.head_dim(),
                                    1.0f / std::sqrt(static_cast<float>(config_.head_dim()))};
  kernels::encoder_attention({qkv_.view(rows, 3 * width), attended}, ranges_, heads, attention_scratch_,
                             pool_);
  project(layer.attention_out, attended, hidden, true);
  norm(hidden, layer.attention_norm);
  const RowsView up = up_.view(rows, config_.intermediate_size);
  project(layer.up, hidden, up, false);
  kernels::gelu_erf(up, pool_);
  project(layer.down, up, hidden, true);
  norm(hidden, layer.output_norm);
}

void BertEncoder::embed(std::span<const EmbedTask> batch) noexcept {
  PAGODA_CHECK(static_cast<int64_t>(batch.size()) <= kBatchSequences, "{} sequences", batch.size());
  const int64_t rows = gather(batch);
  if (rows == 0) return;
  const RowsView hidden = hidden_.view(rows, config_.hidden_size);
  norm(hidden, weights_.norm);
  for (const EncoderLayer& layer : weights_.layers) run_layer(layer, rows);
  for (size_t i = 0; i < batch.size(); ++i) {
    pooler_.begin();
    for (int64_t row = 0; row < ranges_[i].count; ++row) pooler_.add(hidden.row(ranges_[i].first + row));
    pooler_.finish(batch[i].vector);
  }
}

class Loader {
 public:
  Loader(const EncoderCheckpoint& checkpoint, WeightPrecision precision)
      : checkpoint_(checkpoint), packer_(precision) {}

  Result<EncoderWeights> load(ComputePool& pool);

 private:
  Result<std::vector<float>> table(const std::string& name, int64_t rows) const;
  Result<NormWeights> norm(const std::string& name) const;
  Result<Projection> projection(const std::vector<std::string>& names, int64_t rows, int64_t depth);
  Result<void> layer(int index, EncoderLayer& layer);

  const EncoderCheckpoint& checkpoint_;
  WeightPacker packer_;
};

Result<std::vector<float>> Loader::table(const std::string& name, int64_t rows) const {
  const int64_t width = checkpoint_.config.hidden_size;
  const auto reader = PAGODA_TRY(checkpoint_.tensors->matrix(checkpoint_.prefix + name, rows, width));
  std::vector<float> values(static_cast<size_t>(rows * width));
  reader->read_values(0, rows, values.data());
  for (const float value : values) {
    if (!std::isfinite(value)) {
      return make_error(ErrorKind::kCorruptFile,
                        reader->describe() + " holds a value that is no finite number");
    }
  }
  return values;
}

Result<NormWeights> Loader::norm(const std::string& name) const {
  const int64_t width = checkpoint_.config.hidden_size;
  const std::string full = checkpoint_.prefix + name;
  NormWeights weights;
  weights.weight = PAGODA_TRY(checkpoint_.tensors->vector(full + ".weight", width));
  weights.bias = PAGODA_TRY(checkpoint_.tensors->vector(full + ".bias", width));
  return weights;
}

Result<Projection> Loader::projection(const std::vector<std::string>& names, int64_t rows, int64_t depth) {
  std::vector<Projection::Section> sections;
  for (const std::string& name : names) sections.push_back({checkpoint_.prefix + name, rows, true});
  return Projection::load(*checkpoint_.tensors, sections, depth, packer_);
}

Result<void> Loader::layer(int index, EncoderLayer& layer) {
  const EncoderConfig& config = checkpoint_.config;
  const std::string name = "encoder.layer." + std::to_string(index) + ".", attention = name + "attention.";
  layer.qkv =
      PAGODA_TRY(projection({attention + "self.query", attention + "self.key", attention + "self.value"},
                            config.hidden_size, config.hidden_size));
  layer.attention_out =
      PAGODA_TRY(projection({attention + "output.dense"}, config.hidden_size, config.hidden_size));
  layer.attention_norm = PAGODA_TRY(norm(attention + "output.LayerNorm"));
  layer.up =
      PAGODA_TRY(projection({name + "intermediate.dense"}, config.intermediate_size, config.hidden_size));
  layer.down = PAGODA_TRY(projection({name + "output.dense"}, config.hidden_size, config.intermediate_size));
  layer.output_norm = PAGODA_TRY(norm(name + "output.LayerNorm"));
  return {};
}

Result<EncoderWeights> Loader::load(ComputePool& pool) {
  const EncoderConfig& config = checkpoint_.config;
  EncoderWeights weights;
  weights.words = PAGODA_TRY(table("embeddings.word_embeddings.weight", config.vocab_size));
  weights.positions = PAGODA_TRY(table("embeddings.position_embeddings.weight", config.max_positions));
  weights.type = PAGODA_TRY(table("embeddings.token_type_embeddings.weight", config.type_vocab_size));
  weights.type.resize(static_cast<size_t>(config.hidden_size));
  weights.norm = PAGODA_TRY(norm("embeddings.LayerNorm"));
  // The file is asked for every layer before memory is taken for all of them.
  for (int index = 0; index < config.num_layers; ++index) {
    const std::string name = checkpoint_.prefix + "encoder.layer." + std::to_string(index) + ".output.dense";
    PAGODA_TRY(checkpoint_.tensors->matrix(name + ".weight", config.hidden_size, config.intermediate_size));
  }
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (int index = 0; index < config.num_layers; ++index) {
    PAGODA_TRY(layer(index, weights.layers[static_cast<size_t>(index)]));
  }
  PAGODA_TRY(packer_.pack(pool));
  weights.bytes = packer_.bytes() +
                  (weights.words.size() + weights.positions.size() + weights.type.size()) * sizeof(float);
  return weights;
}

}  // namespace

Result<std::unique_ptr<Encoder>> load_encoder(const EncoderCheckpoint& checkpoint,
                                              const EncoderOptions& options, ComputePool& pool) {
  PAGODA_CHECK(options.max_tokens >= 1 && options.max_tokens <= checkpoint.config.max_positions &&
                   options.batch_tokens >= options.max_tokens,
               "{} tokens, {} in a batch", options.max_tokens, options.batch_tokens);
  EncoderWeights weights = PAGODA_TRY(Loader(checkpoint, options.precision).load(pool));
  return std::unique_ptr<Encoder>(
      std::make_unique<BertEncoder>(checkpoint.config, options, std::move(weights), pool));
}

}  // namespace pagoda::model
