#include "model/loader/rounded_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "model/checkpoint.h"
#include "model/pack.h"
#include "model_files.h"

namespace pagoda::model {
namespace {

using namespace test;

// A matrix of floats in memory.
class Floats final : public MatrixReader {
 public:
  Floats(int64_t rows, int64_t depth) : rows_(rows), depth_(depth) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 0.02f);
    for (int64_t i = 0; i < rows * depth; ++i) values_.push_back(normal(random));
  }
  int64_t rows() const override { return rows_; }
  int64_t depth() const override { return depth_; }
  CodeScheme scheme() const override { return {}; }
  Range code_range(int64_t, int64_t) const override { return {}; }
  void read_codes(int64_t, int64_t, uint8_t*, float*, float*) const override {}
  void read_values(int64_t first, int64_t count, float* values) const override {
    std::copy_n(values_.begin() + first * depth_, count * depth_, values);
  }
  std::vector<float>& values() { return values_; }

 private:
  int64_t rows_, depth_;
  std::vector<float> values_;
};

struct Rounded {
  Rounded(int64_t rows, int64_t depth, Rounding rounding) {
    auto source = std::make_unique<Floats>(rows, depth);
    floats = source.get();
    matrix = std::make_unique<RoundedMatrix>(std::move(source), rounding);
  }
  Floats* floats;
  std::unique_ptr<RoundedMatrix> matrix;
};

TEST(RoundedMatrix, EveryWeightIsTheNearestCode) {
  for (const Rounding rounding : {Rounding::kInt8, Rounding::kInt4}) {
    for (const int64_t depth : {64, 96, 40}) {
      Rounded rounded(19, depth, rounding);
      std::vector<float> values(static_cast<size_t>(19 * depth));
      rounded.matrix->read_values(0, 19, values.data());
      for (int64_t r = 0; r < 19; ++r) {
        for (int64_t k = 0; k < depth; ++k) {
          const float* const row = rounded.floats->values().data() + r * depth;
          const int64_t width = rounded.matrix->scheme().group_size, group = k / width * width;
          const int64_t end = std::min(depth, group + width);
          const auto [low, high] = std::minmax_element(row + group, row + end);
          const float step = rounding == Rounding::kInt8 ? std::max(-*low, *high) / 127 : (*high - *low) / 15;
          // Half a step, and what rounding the scale and the offset to 11 bits moves the ends by.
          const float slack = 0x1p-11f * (std::fabs(*low) + std::fabs(*high));
          EXPECT_NEAR(values[static_cast<size_t>(r * depth + k)], row[k], step / 2 + slack) << r << " " << k;
        }
      }
    }
  }
}

// What is packed is what read_values says, so float32 shows the error of rounding alone.
TEST(RoundedMatrix, PacksExactlyWhatItReads) {
  ComputePool pool(2);
  for (const Rounding rounding : {Rounding::kInt8, Rounding::kInt4}) {
    for (const int64_t depth : {64, 40}) {
      Rounded rounded(40, depth, rounding);
      std::fill_n(rounded.floats->values().begin(), depth, 0.0f);          // a row of zeros
      std::fill_n(rounded.floats->values().begin() + depth, depth, 0.5f);  // and of equal weights
      const MatrixReader* const part = rounded.matrix.get();
      const auto packed = pack_matrix(std::span(&part, 1), WeightPrecision::kNative, pool);
      ASSERT_TRUE(packed) << packed.error().message;
      EXPECT_EQ(packed->layout(), rounding == Rounding::kInt8 ? WeightLayout::kW8 : WeightLayout::kW4);
      std::vector<float> expected(static_cast<size_t>(depth)), actual(expected);
      for (int64_t r = 0; r < 40; ++r) {
        rounded.matrix->read_values(r, 1, expected.data());
        packed->unpack_row(r, actual);
        EXPECT_EQ(actual, expected) << r;
      }
      packed->unpack_row(0, actual);
      EXPECT_EQ(actual, std::vector<float>(static_cast<size_t>(depth), 0.0f));
      packed->unpack_row(1, actual);
      for (const float value : actual) EXPECT_NEAR(value, 0.5f, 0.5f / 127 / 2);
    }
  }
}

TEST(RoundedMatrix, RefusesWhatIsNoNumber) {
  ComputePool pool(2);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const Rounding rounding : {Rounding::kInt8, Rounding::kInt4}) {
      for (const size_t at : {size_t{0}, size_t{70}, size_t{40 * 64 - 1}}) {
        Rounded rounded(40, 64, rounding);
        rounded.floats->values()[at] = bad;
        const MatrixReader* const part = rounded.matrix.get();
        const auto packed = pack_matrix(std::span(&part, 1), WeightPrecision::kNative, pool);
        ASSERT_FALSE(packed);
        EXPECT_EQ(packed.error().kind, ErrorKind::kCorruptFile);
      }
    }
  }
}

class QuantizationChoice : public ::testing::Test {
 protected:
  QuantizationChoice() { path_ = dir_.write("m.gguf", tiny_gguf().bytes()); }
  std::string error(const std::string& quantization) const {
    const auto checkpoint = open_checkpoint(path_, quantization);
    if (checkpoint) return "";
    EXPECT_EQ(checkpoint.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(checkpoint.error().param, "--quantization");
    EXPECT_EQ(checkpoint.error().message.find('\n'), std::string::npos);
    return checkpoint.error().message;
  }
  void expect_error(const std::string& quantization, const std::string& part) const {
    EXPECT_NE(error(quantization).find(part), std::string::npos) << error(quantization);
  }
  TempDir dir_;
  std::string path_;
};

TEST_F(QuantizationChoice, RoundsFloats) {
  for (const auto& [name, bits] :
       {std::pair<std::string, int>{"int8", 8}, {"int4", 4}, {"bf16", 0}, {"auto", 0}}) {
    const auto checkpoint = open_checkpoint(path_, name);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto query = checkpoint->tensors->matrix("model.layers.0.self_attn.q_proj.weight", 32, 32);
    EXPECT_EQ((*query)->scheme().bits, bits) << name;
    EXPECT_EQ((*query)->scheme().has_offsets, bits == 4);
    // A step reads all of the head: eight bits are enough for it, and keep it accurate.
    const auto head = checkpoint->tensors->matrix("lm_head.weight", 8, 32);
    EXPECT_EQ((*head)->scheme().bits, bits == 0 ? 0 : 8);
    EXPECT_EQ(checkpoint->rounding, bits == 0 ? "" : name);
    EXPECT_EQ(checkpoint->format, "GGUF v3 (F32 12)" + (bits == 0 ? "" : ", " + name + " at load"));
  }
}

TEST_F(QuantizationChoice, RoundsTheHeadAlone) {
  auto checkpoint = open_checkpoint(path_);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  round_head(*checkpoint);
  const auto bits = [&](const std::string& name, int64_t rows) {
    return (*checkpoint->tensors->matrix(name, rows, 32))->scheme().bits;
  };
  EXPECT_EQ(bits("model.layers.0.self_attn.q_proj.weight", 32), 0);
  EXPECT_EQ(bits("model.embed_tokens.weight", 8), 8);
  EXPECT_EQ(bits("lm_head.weight", 8), 8);
  EXPECT_EQ(checkpoint->rounding, kHeadRounding);
  EXPECT_EQ(checkpoint->format, "GGUF v3 (F32 12), head int8 at load");
  auto rounded = open_checkpoint(path_, "int4");
  round_head(*rounded);
  EXPECT_EQ(rounded->rounding, "int4");
}

TEST_F(QuantizationChoice, ContradictionsAreNamed) {
  expect_error("int3", "--quantization is 'int3'; known are auto, int8");
  expect_error("gptq", "--quantization is gptq, but this is no Hugging Face folder");
  EXPECT_EQ(error("gguf"), "");
  GgufBuilder coded = tiny_gguf();
  coded.tensor("blk.0.attn_q.weight", {32, 32}, 2, std::string(32 * 18, '\0'));  // Q4_0
  dir_.write("m.gguf", coded.bytes());
  for (const char* const name : {"int8", "int4", "bf16", "fp16"}) {
    expect_error(name,
                 "is for weights of floats, but model.layers.0.self_attn.q_proj.weight is quantised already");
  }
}

}  // namespace
}  // namespace pagoda::model
