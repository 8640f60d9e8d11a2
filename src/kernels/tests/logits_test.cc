#include "kernels/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/tests/kernel_test_support.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

constexpr float kInf = INFINITY;
const float kNan = std::nanf("");

// Rows with ties, infinities and NaN in every position of a vector.
std::vector<std::vector<float>> rows() {
  std::vector<std::vector<float>> list = {
      {}, {1.0f}, {kNan}, {-kInf}, {kNan, -kInf}, {kNan, kNan}, {0.0f, -0.0f}, {2, 3, 3, 1}, {kInf, 1, kInf}};
  std::mt19937 random(3);
  for (size_t n = 1; n < 140; ++n) {
    std::vector<float> row = random_floats(n, -4, 4, n);
    for (float& value : row) {
      const auto draw = random() % 10;
      if (draw < 3) value = std::round(value);  // ties
      if (draw == 3) value = -kInf;
      if (draw == 4 && n % 3 == 0) value = kNan;
    }
    list.push_back(row);
  }
  list.push_back(random_floats(50001, -10, 10, 8));
  std::vector<float> ascending(5000);
  std::iota(ascending.begin(), ascending.end(), 0.0f);
  list.push_back(ascending);
  return list;
}

// Indices of the values that are not NaN, best first, lower index first on ties.
std::vector<int32_t> ranking(const std::vector<float>& row) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!std::isnan(row[i])) ids.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  return ids;
}

class LogitsTest : public PerIsa {};

TEST_P(LogitsTest, ArgmaxAndCountGreaterAreExact) {
  for (const auto& row : rows()) {
    const auto ranked = ranking(row);
    EXPECT_EQ(argmax(row), ranked.empty() ? -1 : ranked[0]) << row.size();
    for (const float value : {-kInf, -1.0f, 0.0f, 2.0f, kInf, kNan}) {
      EXPECT_EQ(count_greater(row, value),
                std::count_if(row.begin(), row.end(), [&](float x) { return x > value; }));
    }
  }
}

TEST_P(LogitsTest, TopKIsTheHeadOfTheRanking) {
  for (const auto& row : rows()) {
    const auto ranked = ranking(row);
    for (const size_t k : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{40}, row.size()}) {
      if (k > row.size()) continue;
      std::vector<int32_t> ids(k + 1, -7);
      std::vector<float> values(k + 1, 123.0f);
      const int64_t count = top_k(row, static_cast<int64_t>(k), ids, values);
      ASSERT_EQ(count, static_cast<int64_t>(std::min(k, ranked.size())));
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        ASSERT_EQ(ids[i], ranked[i]) << row.size() << " k " << k << " at " << i;
        ASSERT_EQ(values[i], row[static_cast<size_t>(ids[i])]);
      }
      EXPECT_EQ(ids[k], -7);
    }
  }
}

TEST_P(LogitsTest, LogSumExpAndExpMatchDouble) {
  for (const auto& row : rows()) {
    double max = -INFINITY, sum = 0;
    for (const float x : row) max = std::isnan(x) ? max : std::max(max, static_cast<double>(x));
    if (!std::isfinite(max)) {
      EXPECT_EQ(log_sum_exp(row), max);
      continue;
    }
    for (const float x : row) sum += std::isnan(x) ? 0 : std::exp(static_cast<double>(x) - max);
    EXPECT_NEAR(log_sum_exp(row), max + std::log(sum), 4e-7);
    std::vector<float> copy = row;
    EXPECT_NEAR(exp_inplace(copy, static_cast<float>(max)), sum, sum * 4e-7);
    for (size_t i = 0; i < row.size(); ++i) {
      const double expected =
          std::isnan(row[i]) ? 0 : std::exp(static_cast<double>(row[i] - static_cast<float>(max)));
      ASSERT_NEAR(copy[i], expected, expected * 2 * 0x1p-23 + 1.5e-45) << row[i];  // or one subnormal step
    }
  }
}

// exp is right to 2 ulp over its whole range; results below the normal floats may be 0.
TEST_P(LogitsTest, ExpIsAccurateOverItsRange) {
  std::vector<float> x;
  for (float v = -110; v <= 0; v += 0.00113f) x.push_back(v);
  x.insert(x.end(), {-kInf, -1e30f, -0.0f, -1e-30f});
  std::vector<float> y = x;
  exp_inplace(y, 0.0f);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    if (expected < 1.2e-38) {
      ASSERT_LE(y[i], 1.2e-38f) << x[i];
      continue;
    }
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / expected);
    ASSERT_NEAR(y[i], expected, expected * 2 * 0x1p-23) << x[i];
  }
  EXPECT_EQ(y[x.size() - 4], 0.0f);
  RecordProperty("worst_relative_error_1e9", std::to_string(worst * 1e9));
}

TEST_P(LogitsTest, AScannedRowAnswersAsTheRowItself) {
  for (const auto& row : rows()) {
    std::vector<float> maxima(num_logits_blocks(row.size()) + 1, 77.0f);
    const ScannedRow scanned = scan(row, maxima);
    EXPECT_EQ(scanned.has_nan, std::ranges::any_of(row, [](float x) { return std::isnan(x); }));
    const int64_t best = argmax(row);
    EXPECT_EQ(scanned.max, best < 0 ? -kInf : row[static_cast<size_t>(best)]);
    EXPECT_EQ(maxima.back(), 77.0f);
    EXPECT_EQ(log_sum_exp(scanned), log_sum_exp(row));
    for (const float value : {-kInf, -1.0f, 0.0f, 2.0f, 3.9f, kInf, kNan}) {
      EXPECT_EQ(count_greater(scanned, value), count_greater(row, value));
    }
    for (const size_t k : {size_t{0}, size_t{1}, size_t{40}, size_t{700}, row.size()}) {
      if (k > row.size()) continue;
      std::vector<int32_t> ids(k), expected_ids(k);
      std::vector<float> values(k), expected_values(k);
      const int64_t count = top_k(row, static_cast<int64_t>(k), expected_ids, expected_values);
      ASSERT_EQ(top_k(scanned, static_cast<int64_t>(k), ids, values), count);
      EXPECT_EQ(ids, expected_ids) << row.size() << " k " << k;
    }
  }
}

TEST_P(LogitsTest, SelectAtLeastFindsAllInOrder) {
  for (const auto& row : rows()) {
    std::vector<float> maxima(num_logits_blocks(row.size()));
    const ScannedRow scanned = scan(row, maxima);
    for (const float least : {-kInf, -2.0f, 0.0f, 3.0f, 9.99f, kInf}) {
      std::vector<int32_t> expected, ids(row.size()), ids_in_place(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        if (row[i] >= least) expected.push_back(static_cast<int32_t>(i));
      }
      std::vector<float> values(row.size()), in_place = row;
      const int64_t count = select_at_least(scanned, least, ids, values);
      ASSERT_EQ(count, std::ssize(expected)) << row.size();
      ASSERT_EQ(select_at_least(in_place, least, ids_in_place), count);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(ids[i], expected[i]);
        ASSERT_EQ(ids_in_place[i], expected[i]);
        ASSERT_EQ(values[i], row[static_cast<size_t>(ids[i])]);
        ASSERT_EQ(in_place[i], values[i]);
      }
    }
  }
}

// The sums of the weights decide which token is drawn, so that their order is part of the contract.
TEST_P(LogitsTest, WeighIsExpOfTheTemperedLogitAndSumsInTheStatedOrder) {
  for (const size_t n : {0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 31, 33, 511, 512}) {
    std::vector<float> row = random_floats(n, -30, 4, n + 1);
    if (n > 3) row[2] = -kInf;
    for (const float temperature : {1.0f, 0.7f, 1e-5f}) {
      const Tempering tempering{4.0f, temperature};
      std::vector<float> exponents, expected, out(n + 1, 5.0f), in_place = row;
      for (const float x : row) exponents.push_back((x - 4.0f) / temperature);
      expected = exponents;
      exp_inplace(expected, 0.0f);
      const double sum = weigh(row, tempering, out);
      EXPECT_EQ(weigh(in_place, tempering, in_place), sum);
      EXPECT_EQ(out.back(), 5.0f);
      out.pop_back();
      EXPECT_EQ(out, expected) << n;
      EXPECT_EQ(in_place, expected);
      double lanes[8] = {}, ordered = 0;
      for (size_t i = 0; i < n / 8 * 8; ++i) lanes[i % 8] += static_cast<double>(out[i]);
      for (size_t i = n / 8 * 8; i < n; ++i) ordered += static_cast<double>(out[i]);
      for (const double lane : lanes) ordered += lane;
      EXPECT_EQ(sum, ordered) << n;
      EXPECT_EQ(sum_of_weights(out), ordered);
    }
  }
}

PAGODA_PER_ISA(LogitsTest);

TEST(LogitsDeathTest, TopKChecksItsRoom) {
  const std::vector<float> row(4);
  std::vector<int32_t> ids(2);
  std::vector<float> values(4);
  EXPECT_DEATH(top_k(row, 3, ids, values), "k 3 of 4");
  EXPECT_DEATH(top_k(row, 5, ids, values), "k 5 of 4");
}

}  // namespace
}  // namespace pagoda::kernels
