// From a matrix in a file to a packed weight.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/tensor_source.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {

// What the weights are turned into.
enum class WeightPrecision : uint8_t {
  kNative,   // quantised files keep their codes (kW4, kW8); f16, bf16 and f32 files become kBF16
  kFloat32,  // everything dequantised exactly into kF32
};

// The layout that pack_matrix would choose for a matrix with this scheme.
WeightLayout packed_layout(const CodeScheme& scheme, WeightPrecision precision);

// Packs the rows of all parts, one after the other, into one weight (q, k and v, or gate and up, as one
// matmul). All parts must have the same depth; parts whose schemes differ can't share a kNative weight: see
// can_pack_together. Panels are filled by all threads, each from the 32 rows of one panel at a time: peak
// memory is the packed size plus 32 * depth codes (kNative) or floats per thread. kCorruptFile when a scale
// is no finite number.
Result<PackedWeight> pack_matrix(std::span<const MatrixReader* const> parts, WeightPrecision precision,
                                 ComputePool& pool);

bool can_pack_together(std::span<const MatrixReader* const> parts, WeightPrecision precision);

}  // namespace pagoda::model
