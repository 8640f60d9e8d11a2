// A model that makes one vector of a text.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace pagoda::model {

// Which of the last layer's rows become the vector: that of the last token, the mean of all, that of the
// first.
enum class Pooling : uint8_t { kLast, kMean, kCls };

std::string_view pooling_name(Pooling pooling);                   // "last", "mean", "cls"
std::optional<Pooling> pooling_from_name(std::string_view name);  // in any case

struct PoolingConfig {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;  // to length 1
};

// Makes one vector of rows that come one after the other. Sums are kept in double and in the order of the
// tokens.
class Pooler {
 public:
  Pooler(const PoolingConfig& config, int64_t width);
  void begin();
  void add(const float* row);
  void finish(std::span<float> vector);

 private:
  PoolingConfig config_;
  std::vector<double> sum_;
  int64_t rows_ = 0;
};

// Divides by the length; a vector of zeros stays as it is.
inline void normalize(std::span<float> vector) {
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double factor = 1 / std::sqrt(squares);
  for (float& value : vector) value = static_cast<float>(value * factor);
}

// One token sequence and where its vector goes.
struct EmbedTask {
  std::span<const TokenId> tokens;  // at least one, each in the vocabulary
  std::span<float> vector;          // [width()]
};

// Called by one thread at a time. A vector is the same, bit for bit, whatever shares its batch.
class Embedder {
 public:
  virtual ~Embedder() = default;
  virtual int64_t width() const = 0;         // numbers of a vector
  virtual int64_t max_tokens() const = 0;    // of one sequence
  virtual int64_t batch_tokens() const = 0;  // of a batch of several
  virtual int64_t batch_sequences() const = 0;
  virtual void embed(std::span<const EmbedTask> batch) noexcept = 0;
};

}  // namespace pagoda::model
