#include "sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"

namespace pagoda::sampling {
namespace {

constexpr double kAll = -std::numeric_limits<double>::infinity();

float max_of(const std::vector<float>& row) {
  return *std::max_element(row.begin(), row.end());
}

// The scan is needed by collect() alone.
void collect(Candidates& candidates, const std::vector<float>& row, float temperature, double threshold) {
  std::vector<float> maxima(kernels::num_logits_blocks(row.size()));
  candidates.collect(kernels::scan(row, maxima), temperature, threshold);
}

// Ids that stay, by the definition: a sort of everything and ascending sums in double.
std::vector<int32_t> sorted_nucleus(const std::vector<float>& row, float temperature, double top_p) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int32_t i) { return row[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(a) < at(b); });
  const double max = static_cast<double>(max_of(row)), t = static_cast<double>(temperature);
  double total = 0;
  for (const float x : row) total += std::exp((static_cast<double>(x) - max) / t);
  std::vector<int32_t> kept;
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += std::exp((static_cast<double>(at(order[i])) - max) / t) / total;
    if (sum > 1 - top_p || i + 1 == order.size()) kept.push_back(order[i]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<int32_t> support(Candidates& candidates, size_t vocab) {
  std::vector<float> row(vocab);
  candidates.write_distribution(row);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > 0) ids.push_back(static_cast<int32_t>(i));
  }
  return ids;
}

// Logits like those of a model: a bell of the given width and a few tokens far above.
std::vector<float> bell(size_t n, uint64_t seed, float width, int peaks) {
  std::vector<float> row(n);
  for (size_t i = 0; i < n; ++i) {
    const double radius = std::sqrt(-2 * std::log(uniform01(seed, 0, i)));
    row[i] = width * static_cast<float>(radius * std::cos(6.283185307 * uniform01(seed, 1, i)));
  }
  for (int p = 0; p < peaks; ++p) {
    row[static_cast<size_t>(uniform01(seed, 2, static_cast<uint64_t>(p)) * static_cast<double>(n))] +=
        10.0f - static_cast<float>(p) * 0.7f;
  }
  return row;
}

TEST(CandidatesTest, NucleusEqualsTheFullSort) {
  Candidates candidates;
  for (const size_t n : {1u, 2u, 37u, 1500u, 2047u, 2048u, 20000u}) {
    for (const float width : {0.01f, 1.0f, 4.0f}) {
      for (const float top_p : {0.013f, 0.5f, 0.9f, 0.997f}) {
        const std::vector<float> row = bell(n, 11 * n, width, 6);
        collect(candidates, row, 0.8f, kAll);
        candidates.keep_nucleus(top_p);
        const auto got = support(candidates, n);
        const auto want = sorted_nucleus(row, 0.8f, static_cast<double>(top_p));
        // float32 weights move a boundary by about 1e-7 of the mass: with thousands of near-equal tokens that
        // can be a token or two, and never more mass than the slack allows.
        const auto most = std::max(got.size(), want.size()), least = std::min(got.size(), want.size());
        EXPECT_LE(most - least, 1 + n / 10000) << "n " << n << " width " << width << " top_p " << top_p;
        std::vector<int32_t> common;
        std::set_intersection(got.begin(), got.end(), want.begin(), want.end(), std::back_inserter(common));
        EXPECT_EQ(common.size(), least) << "n " << n << " width " << width << " top_p " << top_p;
      }
    }
  }
}

TEST(CandidatesTest, HalvesAndQuartersAreCutOnTheirBoundaries) {
  const std::vector<float> row = {std::log(0.125f), std::log(0.5f), std::log(0.125f), std::log(0.25f)};
  const std::vector<std::pair<float, size_t>> cases = {{0.5f, 1},   {0.6f, 2},  {0.75f, 2}, {0.76f, 3},
                                                       {0.875f, 3}, {0.88f, 4}, {1.0f, 4},  {1e-9f, 1}};
  for (const auto& [top_p, kept] : cases) {
    Candidates candidates;
    collect(candidates, row, 1.0f, kAll);
    candidates.keep_nucleus(top_p);
    EXPECT_EQ(support(candidates, row.size()).size(), kept) << top_p;
  }
}

TEST(CandidatesTest, HalvesAndQuartersAreCutAlikeInALargeVocabulary) {
  std::vector<float> row(5000, -std::numeric_limits<float>::infinity());
  row[17] = std::log(0.125f);
  row[400] = std::log(0.5f);
  row[4000] = std::log(0.25f);
  row[4999] = std::log(0.125f);
  const std::vector<std::pair<float, size_t>> cases = {
      {0.5f, 1}, {0.6f, 2}, {0.75f, 2}, {0.76f, 3}, {0.88f, 4}};
  for (const auto& [top_p, kept] : cases) {
    Candidates candidates;
    collect(candidates, row, 1.0f, kAll);
    candidates.keep_nucleus(top_p);
    EXPECT_EQ(support(candidates, row.size()).size(), kept) << top_p;
  }
}

TEST(CandidatesTest, AmongEqualLogitsTheHigherIdsStay) {
  for (const size_t n : {8u, 4096u}) {
    const std::vector<float> row(n, 1.5f);
    Candidates candidates;
    collect(candidates, row, 1.0f, kAll);
    candidates.keep_nucleus(0.25f);
    const auto kept = support(candidates, n);
    EXPECT_EQ(kept.size(), n / 4);
    EXPECT_EQ(kept.front(), static_cast<int32_t>(n - n / 4));
  }
}

TEST(CandidatesTest, ATinyTopPLeavesOneOfEqualLogits) {
  for (const size_t n : {1u, 3u, 8u, 1000u, 4097u, 50000u}) {
    Candidates candidates;
    const std::vector<float> row(n, -3.0f);
    collect(candidates, row, 0.7f, kAll);
    candidates.keep_nucleus(1e-9f);
    EXPECT_EQ(support(candidates, n), std::vector<int32_t>{static_cast<int32_t>(n) - 1});
  }
}

TEST(CandidatesTest, ThresholdKeepsTies) {
  const std::vector<float> row = {1, 3, 3, -2, 3, 0};
  Candidates candidates;
  collect(candidates, row, 1.0f, 3.0);
  EXPECT_EQ(candidates.size(), 3u);
  EXPECT_EQ(support(candidates, row.size()), (std::vector<int32_t>{1, 2, 4}));
}

// Scratch that a larger row left behind must not show.
TEST(CandidatesTest, RowsOfAllKindsMayFollowEachOther) {
  Candidates reused;
  for (const size_t n : {5000u, 37u, 3000u, 600u}) {
    for (const double threshold : {kAll, -0.5, 2.0}) {
      for (const float top_p : {1.0f, 0.8f}) {
        const std::vector<float> row = bell(n, n, 1.5f, 4);
        Candidates fresh;
        collect(fresh, row, 0.9f, threshold);
        collect(reused, row, 0.9f, threshold);
        fresh.keep_nucleus(top_p);
        reused.keep_nucleus(top_p);
        std::vector<float> a(n), b(n);
        fresh.write_distribution(a);
        reused.write_distribution(b);
        EXPECT_EQ(a, b) << n << " " << threshold << " " << top_p;
        EXPECT_EQ(fresh.pick(0.37), reused.pick(0.37));
      }
    }
  }
}

TEST(CandidatesTest, AThresholdBetweenTwoFloatsIsNotRoundedDown) {
  const float x = 2.0f, below = std::nextafter(x, 0.0f);
  const std::vector<float> row = {below, x, 1.0f};
  Candidates candidates;
  collect(candidates, row, 1.0f, (static_cast<double>(x) + static_cast<double>(below)) / 2 + 1e-12);
  EXPECT_EQ(support(candidates, 3), std::vector<int32_t>{1});
  collect(candidates, row, 1.0f, static_cast<double>(below));
  EXPECT_EQ(support(candidates, 3), (std::vector<int32_t>{0, 1}));
}

TEST(CandidatesTest, PickInvertsTheCumulativeDistribution) {
  // Weights 1, 1/2, 1/4, 1/4 at ids 1, 3, 0, 2: cumulative over ascending ids .125, .625, .75, 1.
  const std::vector<float> row = {std::log(0.125f), std::log(0.5f), std::log(0.125f), std::log(0.25f)};
  Candidates candidates;
  collect(candidates, row, 1.0f, kAll);
  EXPECT_EQ(candidates.pick(1e-12), 0);
  EXPECT_EQ(candidates.pick(0.12), 0);
  EXPECT_EQ(candidates.pick(0.13), 1);
  EXPECT_EQ(candidates.pick(0.62), 1);
  EXPECT_EQ(candidates.pick(0.63), 2);
  EXPECT_EQ(candidates.pick(0.74), 2);
  EXPECT_EQ(candidates.pick(0.76), 3);
  EXPECT_EQ(candidates.pick(1.0 - 0x1p-53), 3);
}

TEST(CandidatesTest, PickAgreesWithOneLongSumOverManyBlocks) {
  const std::vector<float> row = bell(5000, 3, 1.0f, 0);
  Candidates candidates;
  collect(candidates, row, 1.0f, kAll);
  candidates.keep_nucleus(0.7f);
  std::vector<float> probabilities(row.size());
  candidates.write_distribution(probabilities);
  for (uint64_t i = 0; i < 2000; ++i) {
    const double u = uniform01(5, 0, i);
    const auto id = static_cast<size_t>(candidates.pick(u));
    double below = 0;
    for (size_t j = 0; j < id; ++j) below += static_cast<double>(probabilities[j]);
    EXPECT_GT(probabilities[id], 0.0f);
    EXPECT_LE(below, u + 1e-6);
    EXPECT_GE(below + static_cast<double>(probabilities[id]), u - 1e-6);
  }
}

TEST(CandidatesTest, PickNeverReturnsACutToken) {
  std::vector<float> row(3000, -std::numeric_limits<float>::infinity());
  row[600] = 1.0f;
  Candidates candidates;
  collect(candidates, row, 1.0f, kAll);
  for (const double u : {1e-300, 0.3, 1.0 - 0x1p-53, 1.0}) EXPECT_EQ(candidates.pick(u), 600) << u;
}

}  // namespace
}  // namespace pagoda::sampling
