// Helpers of the dispatchers: the choice of a tier's table.
#pragma once

#include <cstdint>

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

}  // namespace pagoda::kernels
