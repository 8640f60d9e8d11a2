#include "model/embedder.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/check.h"

namespace pagoda::model {

std::string_view pooling_name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kCls:
      return "cls";
    case Pooling::kLast:
      break;
  }
  return "last";
}

std::optional<Pooling> pooling_from_name(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kCls}) {
    if (lower == pooling_name(pooling)) return pooling;
  }
  return std::nullopt;
}

Pooler::Pooler(const PoolingConfig& config, int64_t width)
    : config_(config), sum_(static_cast<size_t>(width)) {}

void Pooler::begin() {
  std::fill(sum_.begin(), sum_.end(), 0.0);
  rows_ = 0;
}

void Pooler::add(const float* row) {
  const bool first = rows_++ == 0;
  if (config_.pooling == Pooling::kMean) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += row[i];
  } else if (first || config_.pooling == Pooling::kLast) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] = row[i];
  }
}

void Pooler::finish(std::span<float> vector) {
  PAGODA_CHECK(vector.size() == sum_.size() && rows_ > 0, "{} numbers of {}, {} rows", vector.size(),
               sum_.size(), rows_);
  const double divisor = config_.pooling == Pooling::kMean ? static_cast<double>(rows_) : 1.0;
  for (size_t i = 0; i < sum_.size(); ++i) vector[i] = static_cast<float>(sum_[i] / divisor);
  if (config_.normalize) normalize(vector);
}

}  // namespace pagoda::model
