// From a matrix in a file to a packed weight.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

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

// What a matrix of this scheme and shape is packed as. The multipliers, which only the data tells, are 1.
PackedWeightSpec packed_spec(const CodeScheme& scheme, int64_t rows, int64_t depth,
                             WeightPrecision precision);

// Parts of one depth and, as kNative, of one scheme and order of columns.
bool can_pack_together(std::span<const MatrixReader* const> parts, WeightPrecision precision);

using MatrixReaders = std::vector<std::shared_ptr<const MatrixReader>>;

// Packs all weights of a model into one piece of memory, in two passes: add() takes what there is to pack and
// adds up its size, pack() fills the memory. One 2-MiB-aligned piece gives small matrices huge pages too (85
// % of SmolLM2's weights lie in matrices below 2 MiB), and the weights lie in it in the order of add(): that
// in which the forward pass reads them.
class WeightPacker {
 public:
  explicit WeightPacker(WeightPrecision precision) : precision_(precision) {}

  // The rows of all parts, one after the other, become one weight (q, k and v, or gate and up, as one
  // matmul). All parts must have the same depth; parts whose schemes differ can't share a kNative weight: see
  // can_pack_together. `target` is assigned by pack() or use() and must stay where it is until then. The
  // result lacks the multipliers, which only the data tells.
  PackedWeightSpec add(MatrixReaders parts, PackedWeight& target) {
    return add(std::move(parts), target, precision_);
  }
  // With a precision of its own.
  PackedWeightSpec add(MatrixReaders parts, PackedWeight& target, WeightPrecision precision);

  WeightPrecision precision() const noexcept { return precision_; }
  const std::vector<PackedWeightSpec>& specs() const noexcept { return specs_; }
  // Where the panels of each weight begin; the memory has bytes() bytes.
  const std::vector<size_t>& offsets() const noexcept { return offsets_; }
  size_t bytes() const noexcept { return bytes_; }

  // Reads and packs everything with all threads of `pool`; returns the memory, which the targets share. Pages
  // of the file are given back as soon as their matrices are packed, so that the peak is the packed size plus
  // kBatchBytes, and not plus the file. kCorruptFile naming the part with a scale or value that is no finite
  // number. specs() have their multipliers afterwards.
  Result<std::shared_ptr<uint8_t>> pack(ComputePool& pool);
  // Takes panels that were packed before: bytes() bytes at `memory`, with the multipliers of `specs`.
  void use(std::span<const PackedWeightSpec> specs, const std::shared_ptr<const uint8_t>& memory);

 private:
  struct Item {
    MatrixReaders parts;
    PackedWeight* target = nullptr;
  };
  static constexpr size_t kBatchBytes = size_t{16} << 20;

  Result<void> set_multipliers(size_t begin, size_t end, ComputePool& pool);
  Result<void> pack_batch(size_t begin, size_t end, ComputePool& pool);

  WeightPrecision precision_;
  std::vector<Item> items_;
  std::vector<PackedWeightSpec> specs_;
  std::vector<size_t> offsets_;
  size_t bytes_ = 0;
};

// One weight in memory of its own; `parts` as for WeightPacker::add.
Result<PackedWeight> pack_matrix(std::span<const MatrixReader* const> parts, WeightPrecision precision,
                                 ComputePool& pool);

}  // namespace pagoda::model
