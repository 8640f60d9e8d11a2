#include "kernels/logits.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {
namespace {

const LogitsBody& body() {
  return pick(scalar::logits_body, avx2::logits_body, avx512::logits_body);
}

int64_t size_of(std::span<const float> row) {
  return static_cast<int64_t>(row.size());
}

// The k best so far as a heap whose root is the worst of them: the smallest value, of equal ones the highest
// index.
struct WorstFirstHeap {
  std::span<int32_t> ids;
  std::span<float> values;

  bool worse(size_t a, size_t b) const {
    return values[a] < values[b] || (values[a] == values[b] && ids[a] > ids[b]);
  }
  void swap(size_t a, size_t b) {
    std::swap(ids[a], ids[b]);
    std::swap(values[a], values[b]);
  }
  void sift_down(size_t at, size_t size) {
    for (;;) {
      size_t child = 2 * at + 1;
      if (child >= size) return;
      if (child + 1 < size && worse(child + 1, child)) ++child;
      if (!worse(child, at)) return;
      swap(child, at);
      at = child;
    }
  }
  void build(size_t size) {
    for (size_t at = size / 2; at-- > 0;) sift_down(at, size);
  }
  // Turns the heap into a list, best first.
  void sort(size_t size) {
    while (size > 1) {
      swap(0, --size);
      sift_down(0, size);
    }
  }
};

}  // namespace

int64_t argmax(std::span<const float> row) noexcept {
  const float max = body().max_value(row.data(), size_of(row));
  const int64_t at = body().find_equal(row.data(), size_of(row), max);
  return at < size_of(row) ? at : -1;
}

double log_sum_exp(std::span<const float> row) noexcept {
  const float max = body().max_value(row.data(), size_of(row));
  if (std::isinf(max)) return max;  // nothing but -inf, or an infinity that swallows the rest
  return static_cast<double>(max) + std::log(body().exp_sum(row.data(), size_of(row), max, nullptr));
}

double exp_inplace(std::span<float> row, float max) noexcept {
  return body().exp_sum(row.data(), static_cast<int64_t>(row.size()), max, row.data());
}

int64_t top_k(std::span<const float> row, int64_t k, std::span<int32_t> out_ids,
              std::span<float> out_values) noexcept {
  const auto wanted = static_cast<size_t>(k);
  PAGODA_CHECK(k >= 0 && k <= size_of(row) && out_ids.size() >= wanted && out_values.size() >= wanted,
               "k {} of {}, room for {} and {}", k, row.size(), out_ids.size(), out_values.size());
  WorstFirstHeap heap{out_ids, out_values};
  size_t size = 0;
  int64_t at = 0;
  for (; at < size_of(row) && size < wanted; ++at) {
    const float value = row[static_cast<size_t>(at)];
    if (std::isnan(value)) continue;
    out_ids[size] = static_cast<int32_t>(at);
    out_values[size++] = value;
  }
  heap.build(size);
  if (size == wanted && wanted > 0) {
    // A later value must beat the worst one strictly: on a tie the lower index stays. In random order only
    // about k ln(n / k) values get this far.
    while ((at = body().find_greater(row.data(), at, size_of(row), out_values[0])) < size_of(row)) {
      out_ids[0] = static_cast<int32_t>(at);
      out_values[0] = row[static_cast<size_t>(at++)];
      heap.sift_down(0, size);
    }
  }
  heap.sort(size);
  return static_cast<int64_t>(size);
}

int64_t count_greater(std::span<const float> row, float value) noexcept {
  return body().count_greater(row.data(), size_of(row), value);
}

}  // namespace pagoda::kernels
