#include "kernels/logits.h"

#include <algorithm>
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

// Values that argmax looks at before it remembers where the best one was: half of a first-level cache, so
// that the search inside of them finds them there.
constexpr int64_t kArgmaxPiece = 4096;

// The first values that are not NaN, up to `wanted`, as a heap; `*at` is the index after the last one.
size_t fill_heap(std::span<const float> row, size_t wanted, const WorstFirstHeap& heap, int64_t* at) {
  size_t size = 0;
  for (; *at < size_of(row) && size < wanted; ++*at) {
    const float value = row[static_cast<size_t>(*at)];
    if (std::isnan(value)) continue;
    heap.ids[size] = static_cast<int32_t>(*at);
    heap.values[size++] = value;
  }
  return size;
}

// Puts values of row[begin, end) that beat the worst one in its place. They must beat it strictly: on a tie
// the lower index stays. In random order only about k ln(n / k) values of a row get this far.
void replace_worse(std::span<const float> row, int64_t begin, int64_t end, WorstFirstHeap& heap,
                   size_t size) {
  int64_t at = begin;
  while ((at = body().find_greater(row.data(), at, end, heap.values[0])) < end) {
    heap.ids[0] = static_cast<int32_t>(at);
    heap.values[0] = row[static_cast<size_t>(at++)];
    heap.sift_down(0, size);
  }
}

// Blocks that hold a value for which `wanted` says yes to the block's maximum.
template <class Wanted, class Visit>
void for_blocks(const ScannedRow& scanned, Wanted wanted, Visit visit) {
  for (size_t block = 0; block < scanned.maxima.size(); ++block) {
    if (!wanted(scanned.maxima[block])) continue;
    const int64_t begin = static_cast<int64_t>(block) * kLogitsBlock;
    visit(begin, std::min(begin + kLogitsBlock, size_of(scanned.row)));
  }
}

}  // namespace

int64_t argmax(std::span<const float> row) noexcept {
  float best = -HUGE_VALF;
  int64_t piece = 0;  // where nothing is above -inf, the first -inf anywhere
  int64_t piece_end = size_of(row);
  for (int64_t at = 0; at < size_of(row); at += kArgmaxPiece) {
    const int64_t end = std::min(at + kArgmaxPiece, size_of(row));
    const float max = body().max_value(row.data() + at, end - at);
    if (max > best) {
      best = max;
      piece = at;
      piece_end = end;
    }
  }
  const int64_t found = piece + body().find_equal(row.data() + piece, piece_end - piece, best);
  return found < piece_end ? found : -1;
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
  int64_t at = 0;
  const size_t size = fill_heap(row, wanted, heap, &at);
  heap.build(size);
  if (size == wanted && wanted > 0) replace_worse(row, at, size_of(row), heap, size);
  heap.sort(size);
  return static_cast<int64_t>(size);
}

int64_t count_greater(std::span<const float> row, float value) noexcept {
  return body().count_greater(row.data(), size_of(row), value);
}

ScannedRow scan(std::span<const float> row, std::span<float> maxima) noexcept {
  const size_t blocks = num_logits_blocks(row.size());
  PAGODA_CHECK(maxima.size() >= blocks, "room for {} of {} blocks", maxima.size(), blocks);
  ScannedRow scanned{.row = row, .maxima = maxima.first(blocks)};
  scanned.has_nan = body().block_maxima(row.data(), size_of(row), maxima.data());
  scanned.max = body().max_value(maxima.data(), static_cast<int64_t>(blocks));
  return scanned;
}

double log_sum_exp(const ScannedRow& scanned) noexcept {
  const float max = scanned.max;
  if (std::isinf(max)) return max;
  return static_cast<double>(max) +
         std::log(body().exp_sum(scanned.row.data(), size_of(scanned.row), max, nullptr));
}

int64_t top_k(const ScannedRow& scanned, int64_t k, std::span<int32_t> out_ids,
              std::span<float> out_values) noexcept {
  const auto wanted = static_cast<size_t>(k);
  PAGODA_CHECK(k >= 0 && k <= size_of(scanned.row) && out_ids.size() >= wanted && out_values.size() >= wanted,
               "k {} of {}, room for {} and {}", k, scanned.row.size(), out_ids.size(), out_values.size());
  WorstFirstHeap heap{out_ids, out_values};
  int64_t at = 0;
  const size_t size = fill_heap(scanned.row, wanted, heap, &at);
  heap.build(size);
  if (size == wanted && wanted > 0) {
    for_blocks(
        scanned, [&](float max) { return max > heap.values[0]; },
        [&](int64_t begin, int64_t end) {
          if (end > at) replace_worse(scanned.row, std::max(begin, at), end, heap, size);
        });
  }
  heap.sort(size);
  return static_cast<int64_t>(size);
}

int64_t count_greater(const ScannedRow& scanned, float value) noexcept {
  int64_t count = 0;
  for_blocks(
      scanned, [&](float max) { return max > value; },
      [&](int64_t begin, int64_t end) {
        count += body().count_greater(scanned.row.data() + begin, end - begin, value);
      });
  return count;
}

int64_t select_at_least(const ScannedRow& scanned, float least, std::span<int32_t> out_ids,
                        std::span<float> out_values) noexcept {
  PAGODA_CHECK(out_ids.size() >= scanned.row.size() && out_values.size() >= scanned.row.size());
  Selection out{.ids = out_ids.data(), .values = out_values.data(), .count = 0};
  for_blocks(
      scanned, [&](float max) { return max >= least; },
      [&](int64_t begin, int64_t end) { body().select(scanned.row.data(), begin, end, least, out); });
  return out.count;
}

int64_t select_at_least(std::span<float> values, float least, std::span<int32_t> out_ids) noexcept {
  PAGODA_CHECK(out_ids.size() >= values.size());
  Selection out{.ids = out_ids.data(), .values = values.data(), .count = 0};
  body().select(values.data(), 0, size_of(values), least, out);
  return out.count;
}

double weigh(std::span<const float> x, const Tempering& tempering, std::span<float> out) noexcept {
  PAGODA_CHECK(out.size() >= x.size(), "room for {} of {}", out.size(), x.size());
  return body().weigh(x.data(), size_of(x), tempering.max, tempering.temperature, out.data());
}

double sum_of_weights(std::span<const float> weights) noexcept {
  return body().sum_lanes(weights.data(), size_of(weights));
}

}  // namespace pagoda::kernels
