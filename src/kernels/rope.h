// Rotary position embedding, half-split ("NeoX") pairing: (x[i], x[i + rotary_dim / 2]) is turned by position
// * freq[i]. Source: Su et al. 2021 (RoFormer) section 3.4. Files that store interleaved pairs are permuted
// at load.
#pragma once

#include <cstdint>
#include <vector>

namespace pagoda::kernels {

// cos and sin of every position below max_positions, computed in double and rounded once. Immutable; shared
// by threads.
class RopeTable {
 public:
  RopeTable() = default;
  // inv_freq: radians per position for each of the rotary_dim / 2 pairs. `magnitude` multiplies cos and sin
  // (yarn, longrope).
  RopeTable(const std::vector<double>& inv_freq, int64_t max_positions, double magnitude = 1.0);

  int rotary_dim() const noexcept { return half_ * 2; }
  int64_t max_positions() const noexcept { return max_positions_; }
  const float* cos_row(int64_t position) const noexcept { return cos_.data() + position * half_; }
  const float* sin_row(int64_t position) const noexcept { return sin_.data() + position * half_; }

 private:
  int half_ = 0;
  int64_t max_positions_ = 0;
  std::vector<float> cos_, sin_;
};

// Turns one head vector of at least rotary_dim floats in place; dimensions past rotary_dim stay.
void rope_row(float* x, const RopeTable& table, int64_t position) noexcept;

}  // namespace pagoda::kernels
