// Factors that bring the channels of a layer's keys closer in size, for caches of int8 codes.
//
// One scale for all channels of a head serves the largest of them. The bias that Qwen 2 adds to its keys
// makes a few channels tens of times larger than the rest, which would then share a handful of the 255 codes.
// Keys are divided by a factor per channel before they are written and queries multiplied by it: no score
// changes but for the rounding. The idea of moving factors between two operands: Xiao et al. 2023
// (SmoothQuant) section 4.
//
// The factors are measured once at load over the same random tokens as wide_groups.h, by the root mean square
// of each channel, or of both channels that RoPE rotates into each other, since positions mix those.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace pagoda::model {

class KeyBalance {
 public:
  KeyBalance() = default;  // changes nothing

  // Between the two, observe() is told of keys as they would be written, and apply() changes nothing.
  void begin_measuring(const ModelConfig& config);
  void finish_measuring();
  bool is_measuring() const noexcept { return !squares_.empty(); }
  // The keys of one token, [kv heads * head_dim].
  void observe(int layer, const float* keys);

  // Of one token, in place: q [heads * head_dim], k [kv heads * head_dim].
  void apply(int layer, float* q, float* k) const noexcept;

 private:
  int64_t width_ = 0;  // kv heads * head_dim
  int head_dim_ = 0, rotary_dim_ = 0, queries_each_ = 1;
  std::vector<double> squares_;            // sums over the tokens, [layer][width]
  std::vector<float> factors_, inverses_;  // of queries and of keys, [layer][width]; empty: all 1
};

}  // namespace pagoda::model
