// Vector helpers over one row of logits, for the sampler. Exact: no approximation but that of exp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/bodies.h"

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

// A row and the largest value of each of its blocks of kLogitsBlock values: what looks for large values skips
// most of them.
struct ScannedRow {
  std::span<const float> row;
  std::span<const float> maxima;
  float max = 0.0f;  // NaN ignored; -inf if there is nothing else
  bool has_nan = false;
};

inline constexpr size_t num_logits_blocks(size_t row_size) {
  return (row_size + kLogitsBlock - 1) / kLogitsBlock;
}

// `maxima` has room for num_logits_blocks(row.size()). The row must not change while the result is used.
ScannedRow scan(std::span<const float> row, std::span<float> maxima) noexcept;

// As the functions above.
double log_sum_exp(const ScannedRow& scanned) noexcept;
int64_t top_k(const ScannedRow& scanned, int64_t k, std::span<int32_t> out_ids,
              std::span<float> out_values) noexcept;
int64_t count_greater(const ScannedRow& scanned, float value) noexcept;

// All values >= `least` and their indices, ascending by index; returns how many. There is room for all of
// row.size().
int64_t select_at_least(const ScannedRow& scanned, float least, std::span<int32_t> out_ids,
                        std::span<float> out_values) noexcept;
// The same in place over `values` without a scan.
int64_t select_at_least(std::span<float> values, float least, std::span<int32_t> out_ids) noexcept;

// Weights of a softmax with a temperature: out[i] = exp((x[i] - max) / temperature); `out` may be x. -inf
// becomes 0. Returns the sum as sum_of_weights gives it.
struct Tempering {
  float max = 0.0f;
  float temperature = 1.0f;
  float exponent(float x) const { return (x - max) / temperature; }
};
double weigh(std::span<const float> x, const Tempering& tempering, std::span<float> out) noexcept;

// In double; the order of the additions is the same on every CPU.
double sum_of_weights(std::span<const float> weights) noexcept;

}  // namespace pagoda::kernels
