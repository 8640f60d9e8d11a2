// Every tensor type that can be run, on real files: what is read equals the reference dequantisation bit for
// bit, and what is packed equals what is read up to the rounding of scales to f16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/checkpoint.h"
#include "model/pack.h"
#include "support/shared_data.h"

namespace pagoda::model {
namespace {

struct Checksum {
  const char* name;
  uint64_t value;
};
// Made with pip gguf 0.19 (gguf.quants.dequantize) and numpy: of all tensors but rope_freqs, sorted by
// Hugging Face name, q and k of llama files in half-split row order, the 32-bit patterns w[i] of the floats,
// numbered on from one tensor to the next: the sum of w[i] * (2 i + 1) modulo 2^64.
constexpr Checksum kChecksums[] = {
    {"llama-bf16", 0xdee292272fa7d735},    {"llama-f16", 0xdee2a968c2959735},
    {"llama-f32", 0xdee2a726054d2704},     {"llama-iq4_nl", 0xcfb46d11d8d24db5},
    {"llama-iq4_xs", 0xcfd52c3b99eba905},  {"llama-q2_k", 0x222db5df2f413eb5},
    {"llama-q3_k_s", 0xb77defa2d90b95f5},  {"llama-q4_0", 0x104fa8035d073735},
    {"llama-q4_1", 0xdd95773637467f35},    {"llama-q4_k_m", 0xa49285bf0f7d4e87},
    {"llama-q4_k_s", 0xdf9bb57e6cd95245},  {"llama-q5_0", 0x7f3eaf4378112335},
    {"llama-q5_1", 0xdb29ed6b94c2f035},    {"llama-q5_k_s", 0xd9da3f4a6761bbd9},
    {"llama-q6_k", 0x63265fa9e6f9471d},    {"llama-q8_0", 0xfd12955f03e171f5},
    {"llama-spm-f16", 0x4491f37fd30a58a6}, {"qwen2-bf16", 0x60f4c2f852dead42},
    {"qwen2-f16", 0x60f4bfb4a748ad42},     {"qwen2-f32", 0x60f4c0a200a96b4a},
    {"qwen2-iq4_nl", 0x6809279324dde582},  {"qwen2-iq4_xs", 0x67e75433ce2a555c},
    {"qwen2-q2_k", 0x77dd636d7ddbf042},    {"qwen2-q3_k_s", 0x71e946c3679855c2},
    {"qwen2-q4_0", 0xc0aeff6ac8852d42},    {"qwen2-q4_1", 0x620dbbf26b744342},
    {"qwen2-q4_k_m", 0x4d1638f0cc42bc16},  {"qwen2-q4_k_s", 0x637c9773e2ce3a3a},
    {"qwen2-q5_0", 0x90c538e5ce546342},    {"qwen2-q5_1", 0x62bfb0a891a3d442},
    {"qwen2-q5_k_s", 0x633565e344a21e32},  {"qwen2-q6_k", 0x0674ba725c8abbc8},
    {"qwen2-q8_0", 0x29eb1b7a6368fd02},
};

uint64_t checksum(const Checkpoint& checkpoint) {
  auto infos = checkpoint.tensors->list();
  std::sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  uint64_t sum = 0, index = 0;
  for (const TensorInfo& info : infos) {
    if (info.name == "rope_freqs.weight") continue;
    std::vector<float> values;
    if (info.shape.size() == 1) {
      values = *checkpoint.tensors->vector(info.name, info.shape[0]);
    } else {
      const auto matrix = checkpoint.tensors->matrix(info.name, info.shape[0], info.shape[1]);
      values.resize(static_cast<size_t>(info.shape[0] * info.shape[1]));
      // In two calls, so that a first row other than 0 counts.
      const int64_t half = info.shape[0] / 2;
      (*matrix)->read_values(0, half, values.data());
      (*matrix)->read_values(half, info.shape[0] - half, values.data() + half * info.shape[1]);
    }
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      sum += bits * (2 * index++ + 1);
    }
  }
  return sum;
}

// |packed - read| is at most the f16 rounding of the scale (2^-11 of |scale * (code - zero)|) and of the
// offset.
void expect_packed(const MatrixReader& matrix, ComputePool& pool) {
  const MatrixReader* const part = &matrix;
  const auto packed = pack_matrix({&part, 1}, WeightPrecision::kNative, pool);
  ASSERT_TRUE(packed) << packed.error().message;
  const CodeScheme scheme = matrix.scheme();
  const auto depth = static_cast<size_t>(matrix.depth());
  std::vector<float> expected(depth), actual(depth), scales(depth / 16 + 1), offsets(depth / 16 + 1);
  std::vector<uint8_t> codes(depth);
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    matrix.read_values(row, 1, expected.data());
    packed->unpack_row(row, actual);
    if (scheme.bits != 0) matrix.read_codes(row, 1, codes.data(), scales.data(), offsets.data());
    for (size_t k = 0; k < depth; ++k) {
      double bound = 0x1p-8 * std::fabs(static_cast<double>(expected[k]));  // bfloat16
      if (scheme.bits != 0) {
        const size_t g = k / static_cast<size_t>(scheme.group_size);
        ASSERT_LT(codes[k], 1 << scheme.bits);
        const double product = std::fabs(static_cast<double>(scales[g]) * (codes[k] - scheme.zero_point));
        const double offset = scheme.has_offsets ? std::fabs(static_cast<double>(offsets[g])) : 0;
        // The last term is the rounding of the two float sums themselves.
        bound = 0x1p-11 * (product + offset) + 0x1p-22 * (product + offset);
      }
      ASSERT_LE(std::fabs(static_cast<double>(actual[k]) - static_cast<double>(expected[k])), bound)
          << matrix.describe() << " row " << row << " column " << k;
    }
  }
}

TEST(GgufGolden, EveryTypeReadsAndPacksAsTheReferenceSays) {
  ComputePool pool(2);
  size_t checked = 0;
  for (const Checksum& expected : kChecksums) {
    const std::string path =
        (testing_support::golden_dir() / "gguf" / (std::string(expected.name) + ".gguf")).string();
    // A clone without the reference data has one of the files in tests/data.
    if (!testing_support::shared_dir() && !std::filesystem::exists(path)) continue;
    ++checked;
    const auto checkpoint = open_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checksum(*checkpoint), expected.value) << expected.name;
    EXPECT_EQ(checkpoint->name, expected.name);
    EXPECT_EQ(checkpoint->file_bytes, std::filesystem::file_size(path));
    EXPECT_FALSE(checkpoint->tokenizer_json.empty()) << expected.name;
    EXPECT_FALSE(checkpoint->chat_template.empty()) << expected.name;
    EXPECT_FALSE(checkpoint->config.eos.empty()) << expected.name;
    for (const TensorInfo& info : checkpoint->tensors->list()) {
      if (info.shape.size() != 2) continue;
      const auto matrix = checkpoint->tensors->matrix(info.name, info.shape[0], info.shape[1]);
      ASSERT_TRUE(matrix) << matrix.error().message;
      expect_packed(**matrix, pool);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(checked, testing_support::shared_dir() ? std::size(kChecksums) : 1);
}

TEST(GgufGolden, FamiliesDiffer) {
  const auto shared = testing_support::shared_dir();
  if (!shared) GTEST_SKIP() << "compares two files of shared/golden/gguf, which is not here";
  const auto llama = open_checkpoint((*shared / "golden/gguf/llama-q4_k_m.gguf").string());
  ASSERT_TRUE(llama) << llama.error().message;
  EXPECT_EQ(llama->format, "GGUF v3 (Q4_K 13, F32 6, Q6_K 3)");
  EXPECT_EQ(llama->config.rope.freq_factors.size(), 16u);
  EXPECT_FALSE(llama->config.tied_embeddings);
  EXPECT_EQ(llama->add_bos_token, true);
  EXPECT_EQ(llama->bos_token, "<s>");
  EXPECT_EQ(llama->config.bos.value, 610);
  const auto qwen = open_checkpoint((*shared / "golden/gguf/qwen2-q4_0.gguf").string());
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_TRUE(qwen->config.qkv_bias && qwen->config.tied_embeddings);
  EXPECT_EQ(qwen->config.rope.theta, 1e6);
  EXPECT_EQ(qwen->config.vocab_size, 607);
}

}  // namespace
}  // namespace pagoda::model
