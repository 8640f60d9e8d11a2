#include "sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/logits.h"

namespace pagoda::sampling {
namespace {

// Weights are summed by blocks, so that a pick scans the block sums and then one block.
constexpr size_t kBlock = 512;

// Below this many candidates the selection runs on all of them; a histogram would cost more than it saves.
constexpr size_t kHistogramMin = 2048;

// Buckets of equal width over the exponent. Weights below exp(-104) are 0 in float32, so that 104 units hold
// all mass; 64 buckets a unit leave about a percent of a typical vocabulary in the bucket that is then
// searched exactly.
constexpr float kBucketsPerUnit = 64.0f;
constexpr float kLastBucket = 104.0f * kBucketsPerUnit;

size_t bucket_of(float exponent) {
  return static_cast<size_t>(std::min(-exponent * kBucketsPerUnit, kLastBucket));
}

// The smallest float that is not below `threshold`.
float least_float(double threshold) {
  const auto nearest = static_cast<float>(threshold);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  return static_cast<double>(nearest) < threshold ? std::nextafter(nearest, kInf) : nearest;
}

}  // namespace

// How much of it a row needs depends on its values, so that room is made for all that it could need: later
// rows allocate nothing. Pages that are never written cost nothing.
void Candidates::make_room(size_t row_size) {
  ids_.resize(row_size);
  weights_.resize(row_size);
  members_.reserve(row_size);
  buckets_.reserve(row_size);
  bucket_mass_.reserve(static_cast<size_t>(kLastBucket) + 1);
  block_sums_.reserve((row_size + kBlock - 1) / kBlock);
}

void Candidates::collect(const kernels::ScannedRow& scanned, float temperature, double threshold) {
  logits_ = scanned.row;
  tempering_ = {scanned.max, temperature};
  size_ = logits_.size();
  if (weights_.size() < size_) make_room(size_);
  whole_row_ = threshold == -std::numeric_limits<double>::infinity();
  if (!whole_row_) {
    size_ = static_cast<size_t>(kernels::select_at_least(scanned, least_float(threshold), ids_, weights_));
  }
  const std::span<const float> chosen = whole_row_ ? logits_ : std::span<const float>(weights());
  block_sums_.clear();
  for (size_t at = 0; at < size_; at += kBlock) {
    const size_t count = std::min(kBlock, size_ - at);
    block_sums_.push_back(
        kernels::weigh(chosen.subspan(at, count), tempering_, weights().subspan(at, count)));
  }
}

bool Candidates::more_likely(int32_t a, int32_t b) const {
  const float x = logit(static_cast<size_t>(a)), y = logit(static_cast<size_t>(b));
  return x != y ? x > y : a > b;
}

double Candidates::sum_weights() {
  if (block_sums_.empty()) {
    for (size_t at = 0; at < size_; at += kBlock) {
      block_sums_.push_back(kernels::sum_of_weights(weights().subspan(at, std::min(kBlock, size_ - at))));
    }
  }
  return std::accumulate(block_sums_.begin(), block_sums_.end(), 0.0);
}

// Fills members_ with the candidates among which the cut lies; returns the mass of the more likely ones.
double Candidates::list_boundary(double limit) {
  members_.clear();
  if (size_ < kHistogramMin) {
    members_.resize(size_);
    std::iota(members_.begin(), members_.end(), 0);
    return 0.0;
  }
  bucket_mass_.assign(static_cast<size_t>(kLastBucket) + 1, 0.0);
  buckets_.resize(std::max(buckets_.size(), size_));
  for (size_t i = 0; i < size_; ++i) {
    const size_t bucket = bucket_of(tempering_.exponent(logit(i)));
    buckets_[i] = static_cast<uint16_t>(bucket);
    bucket_mass_[bucket] += static_cast<double>(weights_[i]);
  }
  // Empty buckets are stepped over: the cut must fall into one that has members. The first has the largest
  // logit.
  size_t boundary = 0;
  double above = 0;
  for (size_t b = 0, next = 0; next < bucket_mass_.size(); b = next) {
    next = b + 1;
    while (next < bucket_mass_.size() && bucket_mass_[next] == 0.0) ++next;
    boundary = b;
    if (next == bucket_mass_.size() || above + bucket_mass_[b] >= limit) break;
    above += bucket_mass_[b];
  }
  for (size_t i = 0; i < size_; ++i) {
    if (buckets_[i] == boundary) members_.push_back(static_cast<int32_t>(i));
  }
  return above;
}

// The least likely of members_ that stays: a candidate stays while the mass of the more likely ones is below
// `limit`. Each round halves the range around its median, so that the work is linear.
int32_t Candidates::last_kept(double above, double limit) {
  auto begin = members_.begin(), end = members_.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, [this](int32_t a, int32_t b) { return more_likely(a, b); });
    double upper = 0;
    for (auto i = begin; i != middle; ++i) upper += static_cast<double>(weights_[static_cast<size_t>(*i)]);
    if (above + upper < limit) {
      above += upper;
      begin = middle;
    } else {
      end = middle;
    }
  }
  return *begin;
}

// All candidates lighter than (1 - top_p) / n of the total weigh less than 1 - top_p together, so that the
// cut lies above them. Most of a vocabulary goes in this one pass, and what follows works on a short list.
void Candidates::drop_tail(float threshold) {
  block_sums_.clear();
  if (whole_row_) {
    size_ = static_cast<size_t>(kernels::select_at_least(weights(), threshold, ids_));
    whole_row_ = false;
    return;
  }
  size_t kept = 0;
  for (size_t i = 0; i < size_; ++i) {
    if (weights_[i] < threshold) continue;
    ids_[kept] = ids_[i];
    weights_[kept++] = weights_[i];
  }
  size_ = kept;
}

void Candidates::keep_nucleus(float top_p) {
  if (top_p >= 1.0f) return;
  const double total = sum_weights(), p = static_cast<double>(top_p);
  const double limit = (p - kProbabilitySlack) * total;
  // Half of the bound leaves room for rounding: equal weights must not all fall below their own mean.
  drop_tail(static_cast<float>(0.5 * (1.0 - p) * total / static_cast<double>(size_)));
  const double above = list_boundary(limit);
  const auto cut = static_cast<size_t>(last_kept(above, limit));
  const float cut_logit = logit(cut);
  for (size_t i = 0; i < size_; ++i) {
    const float x = logit(i);
    if (x < cut_logit || (x == cut_logit && i < cut)) weights_[i] = 0.0f;
  }
}

int32_t Candidates::pick(double u) {
  double target = u * sum_weights();
  size_t block = 0;
  while (block + 1 < block_sums_.size() && target >= block_sums_[block]) target -= block_sums_[block++];
  const size_t begin = block * kBlock, end = std::min(begin + kBlock, size_);
  size_t chosen = size_;
  for (size_t i = begin; i < end; ++i) {
    if (weights_[i] == 0.0f) continue;
    chosen = i;
    target -= static_cast<double>(weights_[i]);
    if (target < 0) break;
  }
  // Rounding can step past the last weight of the row into blocks that were cut; the last one left is meant
  // then.
  for (size_t i = begin; chosen == size_; --i) {
    if (weights_[i] != 0.0f) chosen = i;
  }
  return whole_row_ ? static_cast<int32_t>(chosen) : ids_[chosen];
}

void Candidates::write_distribution(std::span<float> row) {
  const double total = sum_weights();
  std::fill(row.begin(), row.end(), 0.0f);
  for (size_t i = 0; i < size_; ++i) {
    const size_t id = whole_row_ ? i : static_cast<size_t>(ids_[i]);
    row[id] = static_cast<float>(static_cast<double>(weights_[i]) / total);
  }
}

}  // namespace pagoda::sampling
