#include "model/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

namespace pagoda::model {
namespace {

// A matrix in memory.
class FakeMatrix final : public MatrixReader {
 public:
  FakeMatrix(int64_t rows, int64_t depth, CodeScheme scheme, uint32_t seed)
      : rows_(rows), depth_(depth), scheme_(scheme) {
    std::mt19937 random(seed);
    const auto count = static_cast<size_t>(rows * depth);
    // Scales and offsets of 11 bits far below f16's range: exact in f16 once the multiplier is taken out.
    const auto number = [&] {
      return static_cast<float>(static_cast<int>(random() % 2000) - 1000) * 0x1p-40f;
    };
    if (scheme.bits == 0) {
      for (size_t i = 0; i < count; ++i) values_.push_back(number());
      return;
    }
    for (size_t i = 0; i < count; ++i) codes_.push_back(static_cast<uint8_t>(random() % (1u << scheme.bits)));
    const size_t groups = count / static_cast<size_t>(scheme.group_size);
    for (size_t i = 0; i < groups; ++i) scales_.push_back(number());
    for (size_t i = 0; i < groups; ++i) offsets_.push_back(scheme.has_offsets ? number() * 64 : 0);
    for (size_t i = 0; i < count; ++i) {
      const size_t g = i / static_cast<size_t>(scheme.group_size);
      values_.push_back(scales_[g] * static_cast<float>(codes_[i] - scheme.zero_point) + offsets_[g]);
    }
  }
  int64_t rows() const override { return rows_; }
  int64_t depth() const override { return depth_; }
  CodeScheme scheme() const override { return scheme_; }
  std::string describe() const override { return "x.gguf: tensor 'fake'"; }
  Range code_range(int64_t first, int64_t count) const override {
    Range range;
    const int64_t groups = depth_ / scheme_.group_size;
    for (int64_t i = first * groups; i < (first + count) * groups; ++i) {
      const float scale = std::fabs(scales_[static_cast<size_t>(i)]);
      if (scale > range.max_scale || std::isnan(scale)) range.max_scale = scale;
      range.max_offset = std::max(range.max_offset, std::fabs(offsets_[static_cast<size_t>(i)]));
    }
    return range;
  }
  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales,
                  float* offsets) const override {
    const int64_t groups = depth_ / scheme_.group_size;
    std::copy_n(codes_.begin() + first * depth_, count * depth_, codes);
    std::copy_n(scales_.begin() + first * groups, count * groups, scales);
    if (scheme_.has_offsets) std::copy_n(offsets_.begin() + first * groups, count * groups, offsets);
  }
  void read_values(int64_t first, int64_t count, float* values) const override {
    std::copy_n(values_.begin() + first * depth_, count * depth_, values);
  }
  float& scale(size_t index) { return scales_[index]; }
  float& value(size_t index) { return values_[index]; }

 private:
  int64_t rows_, depth_;
  CodeScheme scheme_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, offsets_, values_;
};

constexpr CodeScheme kFloat{};
constexpr CodeScheme kFourBit{4, 32, false, 8};

// Every row of the packed weight equals the rows of the parts, one part after the other.
void expect_rows(const PackedWeight& weight, const std::vector<const MatrixReader*>& parts, float tolerance) {
  int64_t row = 0;
  std::vector<float> actual(static_cast<size_t>(weight.depth())), expected(actual);
  for (const MatrixReader* const part : parts) {
    for (int64_t r = 0; r < part->rows(); ++r, ++row) {
      part->read_values(r, 1, expected.data());
      weight.unpack_row(row, actual);
      for (size_t k = 0; k < actual.size(); ++k) {
        ASSERT_LE(std::fabs(actual[k] - expected[k]), tolerance * std::fabs(expected[k])) << row << " " << k;
      }
    }
  }
  EXPECT_EQ(row, weight.rows());
}

TEST(PackMatrix, StacksPartsOfAllSchemesInOrder) {
  ComputePool pool(3);
  for (const CodeScheme scheme : {kFloat, kFourBit, CodeScheme{4, 16, true, 0}, CodeScheme{8, 32, true, 0},
                                  CodeScheme{8, 16, false, 32}, CodeScheme{8, 32, false, 128},
                                  CodeScheme{6, 16, false, 32}, CodeScheme{5, 32, true, 0}}) {
    // Parts that end inside panels of 32 rows, and one smaller than a panel.
    const FakeMatrix a(40, 64, scheme, 1), b(7, 64, scheme, 2), c(70, 64, scheme, 3);
    const std::vector<const MatrixReader*> parts = {&a, &b, &c};
    ASSERT_TRUE(can_pack_together(parts, WeightPrecision::kNative));
    const auto native = pack_matrix(parts, WeightPrecision::kNative, pool);
    ASSERT_TRUE(native) << native.error().message;
    EXPECT_EQ(native->layout(), packed_spec(scheme, 117, 64, WeightPrecision::kNative).layout);
    EXPECT_EQ(native->rows(), 117);
    // Floats are rounded to bfloat16 (8 bits); codes with these scales are exact.
    expect_rows(*native, parts, scheme.bits == 0 ? 0x1p-8f : 0);
    const auto exact = pack_matrix(parts, WeightPrecision::kFloat32, pool);
    ASSERT_TRUE(exact);
    EXPECT_EQ(exact->layout(), WeightLayout::kF32);
    expect_rows(*exact, parts, 0);
  }
}

TEST(PackMatrix, LayoutFollowsTheScheme) {
  const auto native = [](const CodeScheme& scheme) {
    return packed_spec(scheme, 8, 64, WeightPrecision::kNative).layout;
  };
  EXPECT_EQ(native(kFloat), WeightLayout::kBF16);
  EXPECT_EQ(native({3, 16, true, 0}), WeightLayout::kW4);
  EXPECT_EQ(native(kFourBit), WeightLayout::kW4);
  EXPECT_EQ(native({5, 32, false, 16}), WeightLayout::kW5);
  EXPECT_EQ(native({5, 16, false, 16}), WeightLayout::kW6);  // kW5 has no groups of 16
  EXPECT_EQ(native({6, 16, false, 32}), WeightLayout::kW6);
  EXPECT_EQ(native({7, 16, false, 64}), WeightLayout::kW8);
  EXPECT_EQ(native({8, 16, false, 32}), WeightLayout::kW8);
  EXPECT_EQ(packed_spec(kFourBit, 8, 64, WeightPrecision::kFloat32).layout, WeightLayout::kF32);
}

TEST(PackMatrix, OnlyEqualSchemesAndDepthsGoTogether) {
  const FakeMatrix four(8, 64, kFourBit, 1), other_zero(8, 64, {4, 32, false, 4}, 1), plain(8, 64, kFloat, 1);
  const FakeMatrix group16(8, 64, {4, 16, false, 8}, 1), offsets(8, 64, {4, 32, true, 0}, 1),
      deep(8, 96, kFourBit, 1);
  for (const MatrixReader* const other : {&other_zero, &plain, &group16, &offsets}) {
    const std::vector<const MatrixReader*> parts = {&four, other};
    EXPECT_FALSE(can_pack_together(parts, WeightPrecision::kNative));
    EXPECT_TRUE(can_pack_together(parts, WeightPrecision::kFloat32));
  }
  const std::vector<const MatrixReader*> parts = {&four, &deep};
  EXPECT_FALSE(can_pack_together(parts, WeightPrecision::kFloat32));
}

TEST(PackMatrix, RefusesScalesThatAreNoNumbers) {
  ComputePool pool(2);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    FakeMatrix matrix(40, 64, kFourBit, 1);
    matrix.scale(77) = bad;
    const std::vector<const MatrixReader*> parts = {&matrix};
    const auto packed = pack_matrix(parts, WeightPrecision::kNative, pool);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().kind, ErrorKind::kCorruptFile);
    EXPECT_NE(packed.error().message.find("tensor 'fake'"), std::string::npos);
  }
}

TEST(PackMatrix, RefusesValuesThatAreNoNumbers) {
  ComputePool pool(2);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const auto precision : {WeightPrecision::kNative, WeightPrecision::kFloat32}) {
      FakeMatrix good(40, 64, kFloat, 1), matrix(40, 64, kFloat, 2);
      matrix.value(40 * 64 - 1) = bad;
      const std::vector<const MatrixReader*> parts = {&good, &matrix};
      const auto packed = pack_matrix(parts, precision, pool);
      ASSERT_FALSE(packed);
      EXPECT_EQ(packed.error().kind, ErrorKind::kCorruptFile);
      EXPECT_NE(packed.error().message.find("tensor 'fake'"), std::string::npos);
    }
  }
}

TEST(PackMatrix, TheNumberOfThreadsDoesNotShow) {
  const FakeMatrix matrix(200, 64, kFourBit, 5);
  const std::vector<const MatrixReader*> parts = {&matrix};
  ComputePool one(1), four(4);
  const auto a = pack_matrix(parts, WeightPrecision::kNative, one);
  const auto b = pack_matrix(parts, WeightPrecision::kNative, four);
  for (int64_t panel = 0; panel < a->num_panels(); ++panel) {
    EXPECT_EQ(std::memcmp(a->panel(panel), b->panel(panel), a->panel_bytes()), 0);
  }
}

std::shared_ptr<FakeMatrix> fake(int64_t rows, int64_t depth, CodeScheme scheme, uint32_t seed) {
  return std::make_shared<FakeMatrix>(rows, depth, scheme, seed);
}

TEST(WeightPacker, AllWeightsLieInOnePieceInTheirOrder) {
  ComputePool pool(3);
  const auto big = fake(3000, 2048, kFourBit, 1), small = fake(33, 64, CodeScheme{8, 16, false, 32}, 2),
             plain = fake(70, 96, kFloat, 3), q = fake(64, 64, kFourBit, 4), k = fake(16, 64, kFourBit, 5);
  WeightPacker packer(WeightPrecision::kNative);
  std::vector<PackedWeight> weights(4);
  packer.add({big}, weights[0]);
  packer.add({small}, weights[1]);
  const PackedWeightSpec spec = packer.add({q, k}, weights[2]);
  EXPECT_EQ(spec.rows, 80);
  EXPECT_EQ(spec.layout, WeightLayout::kW4);
  packer.add({plain}, weights[3]);
  const auto memory = packer.pack(pool);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->get()) % (size_t{2} << 20), 0U);
  size_t end = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(weights[i].panel(0), memory->get() + packer.offsets()[i]);
    EXPECT_GE(packer.offsets()[i], end);
    EXPECT_LT(packer.offsets()[i], end + 64);
    EXPECT_EQ(packer.offsets()[i] % 64, 0U);
    end = packer.offsets()[i] + weights[i].bytes();
  }
  EXPECT_LE(end, packer.bytes());
  expect_rows(weights[0], {big.get()}, 0);
  expect_rows(weights[1], {small.get()}, 0);
  expect_rows(weights[2], {q.get(), k.get()}, 0);
  expect_rows(weights[3], {plain.get()}, 0x1p-8f);
  // The same bytes as alone.
  const std::vector<const MatrixReader*> parts = {q.get(), k.get()};
  const auto alone = pack_matrix(parts, WeightPrecision::kNative, pool);
  EXPECT_EQ(std::memcmp(alone->panel(0), weights[2].panel(0), alone->bytes()), 0);
}

TEST(WeightPacker, UsesPanelsPackedBefore) {
  ComputePool pool(2);
  const auto a = fake(40, 64, kFourBit, 1), b = fake(7, 96, CodeScheme{8, 32, true, 0}, 2);
  std::vector<PackedWeight> first(2), second(2);
  WeightPacker packer(WeightPrecision::kNative), again(WeightPrecision::kNative);
  packer.add({a}, first[0]);
  packer.add({b}, first[1]);
  const auto memory = packer.pack(pool);
  ASSERT_TRUE(memory);
  EXPECT_LT(packer.specs()[0].scale_multiplier, 1e-6);
  again.add({a}, second[0]);
  again.add({b}, second[1]);
  EXPECT_EQ(again.bytes(), packer.bytes());
  again.use(packer.specs(), *memory);
  EXPECT_EQ(second[1].panel(0), first[1].panel(0));
  expect_rows(second[0], {a.get()}, 0);
  expect_rows(second[1], {b.get()}, 0);
}

TEST(WeightPacker, NamesTheBadOneOfManyParts) {
  class Named final : public MatrixReader {
   public:
    explicit Named(std::shared_ptr<FakeMatrix> matrix) : matrix_(std::move(matrix)) {}
    int64_t rows() const override { return matrix_->rows(); }
    int64_t depth() const override { return matrix_->depth(); }
    CodeScheme scheme() const override { return matrix_->scheme(); }
    std::string describe() const override { return "the bad one"; }
    Range code_range(int64_t r, int64_t n) const override { return matrix_->code_range(r, n); }
    void read_codes(int64_t r, int64_t n, uint8_t* codes, float* scales, float* offsets) const override {
      matrix_->read_codes(r, n, codes, scales, offsets);
    }
    void read_values(int64_t r, int64_t n, float* values) const override {
      matrix_->read_values(r, n, values);
    }

   private:
    std::shared_ptr<FakeMatrix> matrix_;
  };
  ComputePool pool(2);
  for (const CodeScheme scheme : {kFourBit, kFloat}) {
    const auto matrix = fake(600, 64, scheme, 2);  // its range is taken in three pieces
    (scheme.bits == 0 ? matrix->value(599 * 64) : matrix->scale(599 * 2)) = std::nanf("");
    PackedWeight first, second;
    WeightPacker packer(WeightPrecision::kNative);
    packer.add({fake(40, 64, scheme, 1)}, first);
    packer.add({fake(40, 64, scheme, 1), std::make_shared<Named>(matrix)}, second);
    const auto packed = packer.pack(pool);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().message.find("the bad one"), 0U) << packed.error().message;
  }
}

}  // namespace
}  // namespace pagoda::model
