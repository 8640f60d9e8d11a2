// Vector helpers over one row of logits, for the sampler. Exact: no approximation but that of exp.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda::kernels {

// Index of the largest value, the lowest index on a tie; -1 when every value is NaN or the row is empty. NaN
// never wins.
int64_t argmax(std::span<const float> row) noexcept;

// log(sum(exp(row))) computed as max + log(sum(exp(x - max))), the sum in double. -inf entries add nothing.
double log_sum_exp(std::span<const float> row) noexcept;

// row[i] = exp(row[i] - max); returns the sum (double). In place. -inf becomes 0.
double exp_inplace(std::span<float> row, float max) noexcept;

// The largest k values: indices in out_ids, values in out_values, descending, ties by lower index first. k <=
// row.size(); returns how many were written (fewer only if fewer values are not NaN). O(n) expected.
int64_t top_k(std::span<const float> row, int64_t k, std::span<int32_t> out_ids,
              std::span<float> out_values) noexcept;

// How many values are strictly greater than `value` (a token's rank minus one).
int64_t count_greater(std::span<const float> row, float value) noexcept;

}  // namespace pagoda::kernels
