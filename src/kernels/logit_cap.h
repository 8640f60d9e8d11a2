// What some families do to their logits: x = scale * x (Granite), x = cap * tanh(x / cap) (Gemma 2).
#pragma once

#include "base/thread_pool.h"
#include "kernels/rows.h"

namespace pagoda::kernels {

struct LogitCap {
  float scale = 1.0f;
  float cap = 0.0f;  // 0 = none; the scale comes first
};

// All rows in place; NaN stays NaN.
void cap_logits(RowsView x, const LogitCap& cap, ComputePool& pool) noexcept;

}  // namespace pagoda::kernels
