// The first half of a gated feed-forward in one pass: y = act(x Wg^T + bg) * (x Wu^T + bu), converted to the
// form of the next product at once. A panel of 32 gate rows and its panel of 32 up rows are one group of 32
// columns of y, so neither product is ever stored as a whole and the activation needs no join of its own.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/gated_activation.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::kernels {

// Consecutive rows of a packed matrix that start with a panel.
struct PanelRows {
  const PackedWeight* weight = nullptr;
  int64_t first_panel = 0;
  const float* bias = nullptr;  // of the first of these rows, or null
};

struct GatedProduct {
  PanelRows gate, up;
  int64_t size = 0;  // rows of each; a multiple of 32
  GatedActivation activation = GatedActivation::kSilu;
};

// A gate and an up panel for every thread; allocated once.
class GatedScratch {
 public:
  GatedScratch() = default;
  GatedScratch(int64_t max_rows, int num_threads);
  int64_t max_rows() const noexcept { return max_rows_; }
  float* gate(int worker) noexcept { return panel(2 * worker); }
  float* up(int worker) noexcept { return panel(2 * worker + 1); }

 private:
  float* panel(int index) noexcept { return buffer_.as<float>() + index * max_rows_ * kPanelRows; }
  int64_t max_rows_ = 0;
  AlignedBuffer buffer_;
};

// `out` has been begun for x.rows rows of product.size columns and shares no memory with x. Bit-identical to
// matmul() and gated_activation_convert(). No allocation; preconditions are CHECKed.
void gated_matmul(const Activations& x, const GatedProduct& product, ActivationBuffer& out,
                  GatedScratch& scratch, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
