#include "kernels/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/isa.h"

namespace pagoda::kernels {
namespace {

// Deterministic values in [-2, 2).
std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 4194304.0f - 2.0f;
  }
  return values;
}

TEST(GeluErfTest, AgreesWithErf) {
  ComputePool pool(1);
  std::vector<float> x;
  for (int i = -1000; i <= 1000; ++i) x.push_back(static_cast<float>(i) * 0.02f);
  x.push_back(0.0f);
  x.push_back(-0.0f);
  const std::vector<float> in = x;
  const auto size = static_cast<int64_t>(x.size());
  gelu_erf({x.data(), 1, size, size}, pool);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = in[i];
    EXPECT_NEAR(x[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))), 4e-7 + 2e-7 * std::fabs(v)) << v;
  }
}

struct Shape {
  int heads, dim;
};

std::vector<float> attend(const std::vector<float>& qkv, const std::vector<RowRange>& sequences,
                          const Shape& shape, int threads) {
  ComputePool pool(threads);
  const int64_t hidden = int64_t{shape.heads} * shape.dim;
  const int64_t rows = static_cast<int64_t>(qkv.size()) / (3 * hidden);
  std::vector<float> in = qkv, out(static_cast<size_t>(rows * hidden), -7.0f);
  EncoderAttentionScratch scratch(80, shape.dim, threads);
  encoder_attention({{in.data(), rows, 3 * hidden, 3 * hidden}, {out.data(), rows, hidden, hidden}},
                    sequences, {shape.heads, shape.dim, 1.0f / std::sqrt(static_cast<float>(shape.dim))},
                    scratch, pool);
  return out;
}

TEST(EncoderAttentionTest, AgreesWithTheFormula) {
  for (const Shape shape : {Shape{2, 32}, Shape{3, 20}, Shape{1, 64}}) {
    const int64_t hidden = int64_t{shape.heads} * shape.dim, n = 37;
    const std::vector<float> qkv = numbers(n * 3 * hidden, 5);
    const std::vector<float> out = attend(qkv, {{0, n}}, shape, 2);
    const auto at = [&](int64_t row, int64_t column) {
      return static_cast<double>(qkv[static_cast<size_t>(row * 3 * hidden + column)]);
    };
    for (int64_t head = 0; head < shape.heads; ++head) {
      for (int64_t row = 0; row < n; ++row) {
        std::vector<double> p(static_cast<size_t>(n));
        double sum = 0;
        for (int64_t t = 0; t < n; ++t) {
          double dot = 0;
          for (int64_t j = 0; j < shape.dim; ++j)
            dot += at(row, head * shape.dim + j) * at(t, hidden + head * shape.dim + j);
          sum += p[static_cast<size_t>(t)] = std::exp(dot / std::sqrt(shape.dim));
        }
        for (int64_t j = 0; j < shape.dim; ++j) {
          double expected = 0;
          for (int64_t t = 0; t < n; ++t)
            expected += p[static_cast<size_t>(t)] / sum * at(t, 2 * hidden + head * shape.dim + j);
          EXPECT_NEAR(out[static_cast<size_t>(row * hidden + head * shape.dim + j)], expected, 5e-6);
        }
      }
    }
  }
}

TEST(EncoderAttentionTest, SequencesAreBitIdenticalInEveryBatchTierAndThreadCount) {
  const Shape shape{2, 32};
  const int64_t hidden = 64, row_floats = 3 * hidden;
  const std::vector<float> a = numbers(13 * row_floats, 6), b = numbers(70 * row_floats, 7);
  std::vector<float> both = b;
  both.insert(both.end(), a.begin(), a.end());
  const Isa before = current_isa();
  const std::vector<float> alone = attend(a, {{0, 13}}, shape, 1);
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > before) continue;
    set_isa(isa);
    for (const int threads : {1, 3}) {
      const std::vector<float> out = attend(both, {{0, 70}, {70, 13}}, shape, threads);
      EXPECT_EQ(std::memcmp(out.data() + 70 * hidden, alone.data(), alone.size() * sizeof(float)), 0)
          << isa_name(isa) << " " << threads;
    }
  }
  set_isa(before);
}

}  // namespace
}  // namespace pagoda::kernels
