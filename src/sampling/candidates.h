// The tokens that a draw may pick, with weights proportional to their probabilities, and the cuts that shrink
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/logits.h"

namespace pagoda::sampling {

// Differences of probabilities below this count as equal in top_p and min_p: float32 weights carry a relative
// error of a few units in the last place (2^-24 each), and a cut that lies on the boundary by definition
// (probabilities 1/2, 1/4, ... with top_p 1/2) must not be decided by them.
inline constexpr double kProbabilitySlack = 0x1p-21;

// Temperature around the largest logit: weights neither overflow nor depend on a common offset of the logits.
using kernels::Tempering;

// Candidates of one row, in ascending order of their ids. Not thread-safe; keeps its memory between rows.
class Candidates {
 public:
  // Every token whose logit is >= `threshold`; -inf takes the whole row without listing it. The logits hold
  // neither NaN nor +inf and must live until the last call on this row.
  void collect(const kernels::ScannedRow& scanned, float temperature, double threshold);

  // Keeps the smallest set of most likely candidates whose share reaches top_p, at least one: in ascending
  // order of probability, candidates go while the sum of their shares is <= 1 - top_p. Among equal logits the
  // higher id stays. O(candidates) expected; a full sort is never made.
  void keep_nucleus(float top_p);

  // The id at the point u in (0, 1) of the cumulative distribution over ascending ids.
  int32_t pick(double u);

  // Writes probabilities into `row` [vocab_size], which may be the logits themselves.
  void write_distribution(std::span<float> row);

  size_t size() const { return size_; }

 private:
  float logit(size_t i) const { return logits_[whole_row_ ? i : static_cast<size_t>(ids_[i])]; }
  std::span<float> weights() { return std::span(weights_).first(size_); }
  void make_room(size_t row_size);
  bool more_likely(int32_t a, int32_t b) const;
  double sum_weights();
  void drop_tail(float threshold);
  double list_boundary(double limit);
  int32_t last_kept(double above, double limit);

  std::span<const float> logits_;
  Tempering tempering_;
  size_t size_ = 0;
  bool whole_row_ = true;            // candidate i is token i, and ids_ means nothing
  std::vector<int32_t> ids_;         // room for the whole row, as weights_
  std::vector<float> weights_;       // in [0, 1]; 0 for -inf and once cut
  std::vector<double> block_sums_;   // of the weights; empty when they changed
  std::vector<double> bucket_mass_;  // keep_nucleus: weight by distance from the largest logit
  std::vector<uint16_t> buckets_;    // keep_nucleus: of each candidate
  std::vector<int32_t> members_;     // keep_nucleus: candidates near the cut
};

}  // namespace pagoda::sampling
