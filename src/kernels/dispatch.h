// Helpers of the dispatchers: the choice of a tier's table, and how much work goes into one chunk.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/bodies.h"
#include "kernels/isa.h"

namespace pagoda::kernels {

// Floats of a row that a producer computes before it converts them: they stay in the first-level cache.
inline constexpr int64_t kRowPiece = 512;

template <class Body>
const Body& pick(const Body& scalar_body, const Body& avx2_body, const Body& avx512_body) {
  switch (current_isa()) {
    case Isa::kAvx512:
      return avx512_body;
    case Isa::kAvx2:
      return avx2_body;
    case Isa::kScalar:
      break;
  }
  return scalar_body;
}

// Chunks for `items` pieces of together `total_ns`: long enough that taking one from the counter (about 100
// ns) is noise, short enough that a thread which lost its CPU holds back little, and four per thread so that
// the ends meet.
inline int chunk_count(double total_ns, int64_t items, int num_threads) {
  if (num_threads == 1 || total_ns < 4000) return 1;
  constexpr double kShortestNs = 4000, kLongestNs = 50000;
  const double chunk_ns = std::clamp(total_ns / (4.0 * num_threads), kShortestNs, kLongestNs);
  const double chunks = std::clamp(total_ns / chunk_ns, 1.0, 1e6);
  return static_cast<int>(std::min(items, static_cast<int64_t>(chunks + 0.5)));
}

}  // namespace pagoda::kernels
