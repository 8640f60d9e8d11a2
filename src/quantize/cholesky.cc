#include "quantize/cholesky.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pagoda::quantize {
namespace {

// Columns that are factored at once: the products between them, nearly all the work, run at the speed of the
// kernels, and what runs as plain loops is kBlock / n of it.
constexpr int64_t kBlock = 128;

// Lower factor of the block of a that begins at (first, first), in place. False when a pivot is not positive.
bool factor_block(Dense& a, int64_t first, int64_t size) {
  for (int64_t j = first; j < first + size; ++j) {
    double pivot = a.at(j, j);
    for (int64_t k = first; k < j; ++k) pivot -= double{a.at(j, k)} * double{a.at(j, k)};
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const auto root = static_cast<float>(std::sqrt(pivot));
    a.at(j, j) = root;
    for (int64_t i = j + 1; i < first + size; ++i) {
      float sum = a.at(i, j);
      for (int64_t k = first; k < j; ++k) sum -= a.at(i, k) * a.at(j, k);
      a.at(i, j) = sum / root;
    }
  }
  return true;
}

// The inverse of the lower triangular block of l at (first, first).
Dense invert_block(const Dense& l, int64_t first, int64_t size) {
  Dense inverse(size, size);
  for (int64_t column = 0; column < size; ++column) {
    for (int64_t i = column; i < size; ++i) {
      double sum = i == column ? 1.0 : 0.0;
      for (int64_t k = column; k < i; ++k)
        sum -= double{l.at(first + i, first + k)} * double{inverse.at(k, column)};
      inverse.at(i, column) = static_cast<float>(sum / double{l.at(first + i, first + i)});
    }
  }
  return inverse;
}

// Lower Cholesky factor in place; the upper triangle holds rubbish afterwards.
bool factor(Dense& a, ComputePool& pool) {
  const int64_t n = a.rows();
  for (int64_t j = 0; j < n; j += kBlock) {
    const int64_t size = std::min(kBlock, n - j), below = n - j - size;
    if (j > 0) {
      // The panel is updated beside its place, as a product may not write what it reads.
      Dense update(n - j, size);
      multiply(std::as_const(a).part(j, n - j, 0, j), std::as_const(a).part(j, size, 0, j), {}, update.view(),
               pool);
      for (int64_t i = 0; i < n - j; ++i) {
        for (int64_t k = 0; k < size; ++k) a.at(j + i, j + k) -= update.at(i, k);
      }
    }
    if (!factor_block(a, j, size)) return false;
    if (below == 0) continue;
    const Dense inverse = invert_block(a, j, size);
    Dense solved(below, size);
    multiply(std::as_const(a).part(j + size, below, j, size), inverse.view(), {}, solved.view(), pool);
    for (int64_t i = 0; i < below; ++i) std::copy_n(solved.row(i), size, a.row(j + size + i) + j);
  }
  return true;
}

// Z = (l^-1)^T, upper triangular.
Dense transposed_inverse(const Dense& l, ComputePool& pool) {
  const int64_t n = l.rows();
  Dense z(n, n);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t size = std::min(kBlock, n - i);
    const Dense inverse = invert_block(l, i, size);
    for (int64_t r = 0; r < size; ++r) {
      for (int64_t c = 0; c <= r; ++c) z.at(i + c, i + r) = inverse.at(r, c);
    }
    if (i == 0) continue;
    // Rows i of the inverse, left of the diagonal: -inverse * (l[i, :i] * inverse[:i, :i]).
    Dense product(i, size);
    multiply(std::as_const(z).part(0, i, 0, i), l.part(i, size, 0, i), {}, product.view(), pool);
    multiply(std::as_const(product).view(), inverse.view(), {-1.0f, false}, z.part(0, i, i, size), pool);
  }
  return z;
}

}  // namespace

Dense upper_factor_of_inverse(Dense h, ComputePool& pool) {
  const int64_t n = h.rows();
  // Reverse rows and columns: the last element of the lower triangle comes first.
  for (int64_t i = 0; i < n; ++i) {
    const int64_t other = n - 1 - i;
    if (i < other) std::swap_ranges(h.row(i), h.row(i) + n, h.row(other));
    if (i <= other) {
      std::reverse(h.row(i), h.row(i) + n);
      if (i < other) std::reverse(h.row(other), h.row(other) + n);
    }
  }
  if (!factor(h, pool)) return {};
  Dense z = transposed_inverse(h, pool);
  // U[a, b] = Z[n - 1 - b, n - 1 - a].
  for (int64_t a = 0; a < n; ++a) {
    for (int64_t b = 0; b < n; ++b) h.at(a, b) = b >= a ? z.at(n - 1 - b, n - 1 - a) : 0.0f;
  }
  return h;
}

}  // namespace pagoda::quantize
