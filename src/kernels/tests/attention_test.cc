#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/tests/kernel_test_support.h"
#include "tensor/half.h"

namespace pagoda::kernels {
namespace {

using namespace testing;

constexpr DType kCacheTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8};

struct Shape {
  int heads, kv_heads, head_dim;
  DType dtype;
};

std::string name_of(const Shape& s) {
  return std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " heads, dim " +
         std::to_string(s.head_dim) + " " + std::string(dtype_name(s.dtype));
}

// One sequence's q, k and v for all positions, and its blocks in a shared cache (scattered, in no order).
struct Sequence {
  int64_t tokens;
  std::vector<float> q, k, v;
  std::vector<BlockId> blocks;
};

// A cache whose every slot holds NaN until it is written, and sequences over it.
class Cache {
 public:
  Cache(const Shape& shape, int num_blocks)
      : shape_(shape), storage_({1, shape.kv_heads, shape.head_dim, shape.dtype}, num_blocks) {
    std::memset(storage_.layer(0).base, 0xff, storage_.bytes());
    free_.resize(static_cast<size_t>(num_blocks));
    for (size_t i = 0; i < free_.size(); ++i) free_[i] = BlockId{static_cast<int32_t>(i * 7 % free_.size())};
  }

  Sequence make_sequence(int64_t tokens, uint32_t seed) {
    Sequence s;
    s.tokens = tokens;
    const auto count = static_cast<size_t>(tokens);
    s.q = random_floats(count * row(shape_.heads), -2, 2, seed);
    s.k = random_floats(count * row(shape_.kv_heads), -2, 2, seed + 1);
    s.v = random_floats(count * row(shape_.kv_heads), -2, 2, seed + 2);
    for (int64_t b = 0; b * kKvBlockTokens < tokens; ++b) {
      s.blocks.push_back(free_.back());
      free_.pop_back();
    }
    return s;
  }

  size_t row(int heads) const { return static_cast<size_t>(heads) * static_cast<size_t>(shape_.head_dim); }
  PagedKvView view() { return storage_.layer(0); }
  const Shape& shape() const { return shape_; }

 private:
  Shape shape_;
  KvStorage storage_;
  std::vector<BlockId> free_;
};

// A piece of a sequence: tokens [begin, end).
struct Piece {
  const Sequence* sequence;
  int64_t begin, end;
};

// Writes K and V of the pieces and computes their attention in one call; rows of the result follow each
// other.
std::vector<float> step(Cache& cache, const std::vector<Piece>& pieces, AttentionParams params,
                        ComputePool& pool, int64_t scratch_tokens = 16) {
  const size_t q_row = cache.row(cache.shape().heads), kv_row = cache.row(cache.shape().kv_heads);
  std::vector<float> q, k, v;
  std::vector<AttentionSequence> sequences;
  int64_t longest = 0;
  for (const Piece& p : pieces) {
    const auto take = [&](const std::vector<float>& from, size_t size, std::vector<float>& to) {
      to.insert(to.end(), from.begin() + static_cast<int64_t>(size) * p.begin,
                from.begin() + static_cast<int64_t>(size) * p.end);
    };
    AttentionSequence s;
    s.first_token = static_cast<int64_t>(q.size() / q_row);
    s.num_tokens = p.end - p.begin;
    s.first_position = p.begin;
    s.block_table = p.sequence->blocks;
    sequences.push_back(s);
    take(p.sequence->q, q_row, q);
    take(p.sequence->k, kv_row, k);
    take(p.sequence->v, kv_row, v);
    longest = std::max(longest, p.end);
  }
  params.num_heads = cache.shape().heads;
  AttentionScratch scratch(scratch_tokens, longest, cache.shape().heads, cache.shape().head_dim,
                           pool.num_threads());
  const auto tokens = static_cast<int64_t>(q.size() / q_row), q_width = static_cast<int64_t>(q_row);
  const auto kv_width = static_cast<int64_t>(kv_row);
  write_kv({k.data(), tokens, kv_width, kv_width}, {v.data(), tokens, kv_width, kv_width}, sequences,
           cache.view(), pool);
  std::vector<float> out(q.size(), std::nanf(""));
  attention({{q.data(), tokens, q_width, q_width}, sequences, cache.view()}, params,
            {out.data(), tokens, q_width, q_width}, scratch, pool);
  return out;
}

// One head of one token as codes, by the formula of bodies.h.
struct Codes {
  float scale = 0;
  std::vector<int> codes;
};

Codes codes_of(const float* x, int dim, float limit) {
  Codes result;
  float max = 0;
  for (int d = 0; d < dim; ++d) max = std::max(max, std::abs(x[d]));
  const bool is_zero = max < 0x1p-100f;
  for (int d = 0; d < dim; ++d)
    result.codes.push_back(is_zero ? 0 : static_cast<int>(std::nearbyint(x[d] * (limit / max))));
  result.scale = is_zero ? 0 : max / limit;
  return result;
}

enum class Role { kQuery, kCached };

// The values of a head that attention is computed from.
std::vector<double> rounded(const float* x, int dim, DType dtype, Role role) {
  std::vector<double> values;
  if (dtype == DType::kI8) {
    const Codes row = codes_of(x, dim, role == Role::kQuery ? 32767.0f : 127.0f);
    for (const int code : row.codes) values.push_back(code * static_cast<double>(row.scale));
    return values;
  }
  for (int d = 0; d < dim; ++d) {
    float value = x[d];
    if (dtype == DType::kBF16) value = bf16_to_f32(f32_to_bf16(value));
    if (dtype == DType::kF16 && role == Role::kCached) value = f16_to_f32(f32_to_f16(value));
    values.push_back(static_cast<double>(value));
  }
  return values;
}

// Softmax attention of token t, head h in double over the rounded q, k and v; `magnitude` is the sum of |p v|
// per dim.
void reference(const Cache& cache, const Sequence& s, const AttentionParams& params, int64_t t, int h,
               std::vector<double>& out, double& largest_v) {
  const Shape& shape = cache.shape();
  const int dim = shape.head_dim, kv_head = h / (shape.heads / shape.kv_heads);
  const auto cached = [&](const std::vector<float>& list, int64_t token) {
    return rounded(list.data() + (token * shape.kv_heads + kv_head) * dim, dim, shape.dtype, Role::kCached);
  };
  const std::vector<double> q =
      rounded(s.q.data() + (t * shape.heads + h) * dim, dim, shape.dtype, Role::kQuery);
  const int64_t begin = params.window > 0 ? std::max<int64_t>(0, t - params.window + 1) : 0;
  std::vector<double> weights;
  for (int64_t j = begin; j <= t; ++j) {
    const std::vector<double> k = cached(s.k, j);
    double sum = std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
    sum *= static_cast<double>(params.scale);
    if (params.softcap > 0)
      sum = static_cast<double>(params.softcap) * std::tanh(sum / static_cast<double>(params.softcap));
    weights.push_back(sum);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& w : weights) total += w = std::exp(w - max);
  out.assign(static_cast<size_t>(dim), 0.0);
  largest_v = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::vector<double> v = cached(s.v, begin + static_cast<int64_t>(i));
    for (size_t d = 0; d < v.size(); ++d) {
      out[d] += weights[i] / total * v[d];
      largest_v = std::max(largest_v, std::abs(v[d]));
    }
  }
}

class AttentionTest : public PerIsa {
 protected:
  ComputePool pool_{2};

  AttentionParams params_for(const Shape& shape) const {
    AttentionParams params;
    params.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    return params;
  }

  // Bound: weights err by the error e of their scores and of exp, values by their own products. |q . k| *
  // scale is below dim * 4 * scale here; its float error is below dim * 2^-24 of that. bf16 rounds each
  // weight by 2^-9 at most. Of an int8 cache a weight's code errs by half a step, 2^-16 of the largest
  // weight, for each of up to 256 tokens of a partition.
  void expect_close(const Cache& cache, const Sequence& s, const AttentionParams& params,
                    const std::vector<float>& out, int64_t first, int64_t stride) {
    const Shape& shape = cache.shape();
    const double dim = shape.head_dim;
    const double score_error = dim * dim * 4 * static_cast<double>(params.scale) * 0x1p-24 + 1e-6;
    const double weight_error = 0x1p-16 + (shape.dtype == DType::kBF16 ? 0x1p-9
                                           : shape.dtype == DType::kI8 ? 256.01 * 0x1p-16
                                                                       : 0.0);
    double worst = 0;
    std::string where;
    for (int64_t t = first; t < s.tokens; t += stride) {
      for (int h = 0; h < shape.heads; ++h) {
        std::vector<double> expected;
        double largest_v;
        reference(cache, s, params, t, h, expected, largest_v);
        for (int d = 0; d < shape.head_dim; ++d) {
          const float got = out[static_cast<size_t>(((t - first) * shape.heads + h) * shape.head_dim + d)];
          const double error = std::abs(static_cast<double>(got) - expected[static_cast<size_t>(d)]);
          const double ratio = error / ((2 * score_error + weight_error) * largest_v);
          if (!(ratio <= worst)) {
            worst = ratio;
            where = "token " + std::to_string(t) + " head " + std::to_string(h) + " dim " +
                    std::to_string(d) + " got " + std::to_string(got) + " expected " +
                    std::to_string(expected[static_cast<size_t>(d)]);
          }
        }
      }
    }
    EXPECT_LE(worst, 1.0) << name_of(shape) << ", " << s.tokens << " tokens: " << where;
  }
};

TEST_P(AttentionTest, MatchesADoubleReferenceForEveryHeadShape) {
  for (const DType dtype : kCacheTypes) {
    for (const Shape& shape :
         {Shape{4, 4, 64, dtype}, Shape{6, 2, 48, dtype}, Shape{7, 1, 128, dtype}, Shape{12, 2, 32, dtype},
          Shape{16, 1, 16, dtype}, Shape{2, 1, 256, dtype}, Shape{3, 3, 80, dtype}, Shape{5, 1, 2, dtype},
          Shape{9, 1, 34, dtype}, Shape{20, 1, 64, dtype}}) {
      Cache cache(shape, 40);
      const Sequence s = cache.make_sequence(37, 1);
      const auto params = params_for(shape);
      expect_close(cache, s, params, step(cache, {{&s, 0, s.tokens}}, params, pool_), 0, 1);
    }
  }
}

TEST_P(AttentionTest, ContextsAroundBlockAndPartitionBoundaries) {
  for (const DType dtype : kCacheTypes) {
    const Shape shape{6, 2, 32, dtype};
    for (const int64_t tokens : {1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 513, 700}) {
      Cache cache(shape, 50);
      const Sequence s = cache.make_sequence(tokens, 3);
      const auto params = params_for(shape);
      const auto out = step(cache, {{&s, 0, tokens}}, params, pool_);
      const int64_t first = std::max<int64_t>(0, tokens - 20);
      const std::vector<float> last(out.begin() + static_cast<int64_t>(cache.row(6)) * first, out.end());
      expect_close(cache, s, params, last, first, 1);
    }
  }
}

TEST_P(AttentionTest, SlidingWindowAndSoftcap) {
  for (const DType dtype : kCacheTypes) {
    const Shape shape{4, 2, 64, dtype};
    for (const int64_t window : {1, 2, 5, 16, 17, 100, 256, 300}) {
      Cache cache(shape, 50);
      const Sequence s = cache.make_sequence(330, 4);
      auto params = params_for(shape);
      params.window = window;
      params.softcap = window % 2 == 0 ? 3.0f : 0.0f;
      const auto out = step(cache, {{&s, 0, s.tokens}}, params, pool_);
      for (const float value : out) ASSERT_TRUE(std::isfinite(value)) << window;
      const int64_t first = 240;
      const std::vector<float> last(out.begin() + static_cast<int64_t>(cache.row(4)) * first, out.end());
      expect_close(cache, s, params, last, first, 1);
    }
  }
}

// Batch invariance, the chunking half: the same prompt in one step, in chunks, and token by token.
TEST_P(AttentionTest, AChunkedPromptEqualsOneShotBitForBit) {
  for (const DType dtype : kCacheTypes) {
    for (const Shape& shape : {Shape{7, 1, 64, dtype}, Shape{2, 2, 48, dtype}, Shape{6, 2, 32, dtype}}) {
      for (const int64_t window : {0, 45}) {
        Cache cache(shape, 100);
        auto params = params_for(shape);
        params.window = window;
        const Sequence s = cache.make_sequence(560, 11);
        const std::vector<float> whole = step(cache, {{&s, 0, s.tokens}}, params, pool_);
        for (const int64_t chunk : {1, 3, 32, 300}) {
          Cache other(shape, 100);
          const Sequence again = other.make_sequence(560, 11);
          std::vector<float> pieces;
          for (int64_t at = 0; at < s.tokens; at += chunk) {
            const auto out = step(other, {{&again, at, std::min(at + chunk, s.tokens)}}, params, pool_);
            pieces.insert(pieces.end(), out.begin(), out.end());
          }
          ASSERT_TRUE(same_bits(whole.data(), pieces.data(), whole.size()))
              << name_of(shape) << " chunk " << chunk << " window " << window;
        }
      }
    }
  }
}

// The other half: seven sequences together, mixed prompts and single tokens, against each one alone.
TEST_P(AttentionTest, ABatchOfSevenEqualsAloneBitForBit) {
  for (const DType dtype : kCacheTypes) {
    const Shape shape{6, 2, 64, dtype};
    Cache cache(shape, 300);
    const auto params = params_for(shape);
    const std::vector<int64_t> lengths = {1, 16, 257, 40, 600, 300, 77};
    std::vector<Sequence> sequences;
    for (const int64_t n : lengths) sequences.push_back(cache.make_sequence(n, static_cast<uint32_t>(n)));
    std::vector<Piece> batch;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& s = sequences[i];
      const int64_t begin = i % 2 == 0 ? s.tokens - 1 : s.tokens / 3;
      if (begin > 0) step(cache, {{&s, 0, begin}}, params, pool_);
      batch.push_back({&s, begin, s.tokens});
    }
    const std::vector<float> together = step(cache, batch, params, pool_);
    size_t at = 0;
    for (const Piece& piece : batch) {
      const std::vector<float> alone = step(cache, {piece}, params, pool_);
      ASSERT_TRUE(same_bits(together.data() + at, alone.data(), alone.size())) << piece.sequence->tokens;
      at += alone.size();
    }
  }
}

// Few items are spread over the partitions; the merge must give what one thread gives.
TEST_P(AttentionTest, SplittingOverThreadsDoesNotChangeABit) {
  ComputePool one(1), four(4);
  for (const DType dtype : kCacheTypes) {
    const Shape shape{7, 1, 128, dtype};
    Cache cache(shape, 100);
    auto params = params_for(shape);
    const Sequence s = cache.make_sequence(1100, 21);
    step(cache, {{&s, 0, s.tokens}}, params, one);
    for (const int64_t window : {0, 500}) {
      params.window = window;
      for (const int64_t tokens : {1, 3, 4}) {
        const Piece piece{&s, s.tokens - tokens, s.tokens};
        const auto alone = step(cache, {piece}, params, one);
        const auto split = step(cache, {piece}, params, four);
        const auto without_room = step(cache, {piece}, params, four, 0);
        ASSERT_TRUE(same_bits(alone.data(), split.data(), alone.size())) << tokens;
        ASSERT_TRUE(same_bits(alone.data(), without_room.data(), alone.size())) << tokens;
      }
    }
  }
}

// Slots after a token's position may hold anything, also those of later tokens of the same step; and slots
// before its window belong to nobody it may hear from.
TEST_P(AttentionTest, NothingOutsideATokensRangeEntersItsResult) {
  for (const DType dtype : kCacheTypes) {
    const Shape shape{3, 1, 32, dtype};
    for (const int64_t window : {0, 9, 20}) {
      auto params = params_for(shape);
      params.window = window;
      Cache cache(shape, 40), dirty(shape, 40);
      const Sequence clean = cache.make_sequence(290, 5);
      Sequence spoiled = dirty.make_sequence(290, 5);
      const int64_t bad = 259;  // its own K and V are NaN
      for (size_t d = 0; d < 32; ++d) {
        spoiled.k[static_cast<size_t>(bad) * 32 + d] = spoiled.v[static_cast<size_t>(bad) * 32 + d] =
            std::nanf("");
      }
      const auto expected = step(cache, {{&clean, 0, 290}}, params, pool_);
      const auto got = step(dirty, {{&spoiled, 0, 290}}, params, pool_);
      const size_t row = cache.row(3);
      for (int64_t t = 0; t < 290; ++t) {
        const size_t at = static_cast<size_t>(t) * row;
        const bool hears = t >= bad && (window == 0 || t - window < bad);
        if (hears) {
          ASSERT_TRUE(std::isnan(got[at])) << t;
        } else {
          ASSERT_TRUE(same_bits(expected.data() + at, got.data() + at, row)) << t << " window " << window;
        }
      }
    }
  }
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  const Shape shape{2, 1, 16, DType::kF32};
  Cache cache(shape, 20);
  Sequence s = cache.make_sequence(280, 6);
  auto params = params_for(shape);
  params.scale = 200.0f;
  const auto out = step(cache, {{&s, 0, s.tokens}}, params, pool_);
  for (const float value : out) ASSERT_TRUE(std::isfinite(value) && std::abs(value) <= 2.0f);
}

TEST_P(AttentionTest, WriteKvFillsTheSlotsOfTheLayout) {
  for (const DType dtype : kCacheTypes) {
    const Shape shape{2, 2, 6, dtype};
    Cache cache(shape, 5);
    const Sequence s = cache.make_sequence(19, 8);
    step(cache, {{&s, 0, 19}}, params_for(shape), pool_);
    for (size_t t = 0; t < 19; ++t) {
      for (int head = 0; head < 2; ++head) {
        const BlockId block = s.blocks[t / 16];
        const uint8_t *k = cache.view().k(block, head), *v = cache.view().v(block, head);
        const size_t slot = t % 16;
        for (size_t d = 0; d < 6; ++d) {
          const size_t from = (t * 2 + static_cast<size_t>(head)) * 6 + d;
          if (dtype == DType::kI8) {
            const Codes key = codes_of(&s.k[from - d], 6, 127), value = codes_of(&s.v[from - d], 6, 127);
            ASSERT_EQ(static_cast<int8_t>(k[d / 2 * 32 + slot * 2 + d % 2]), key.codes[d]);
            ASSERT_EQ(static_cast<int8_t>(v[(slot / 2 * 6 + d) * 2 + slot % 2]), value.codes[d]);
            ASSERT_EQ(std::memcmp(k + 96 + slot * 4, &key.scale, 4), 0);
            ASSERT_EQ(std::memcmp(v + 96 + slot * 4, &value.scale, 4), 0);
          } else if (dtype == DType::kF16) {
            const uint16_t key = f32_to_f16(s.k[from]), value = f32_to_f16(s.v[from]);
            ASSERT_EQ(std::memcmp(k + (d * 16 + slot) * 2, &key, 2), 0);
            ASSERT_EQ(std::memcmp(v + (slot * 6 + d) * 2, &value, 2), 0);
          } else if (dtype == DType::kF32) {
            ASSERT_EQ(std::memcmp(k + (d * 16 + slot) * 4, &s.k[from], 4), 0);
            ASSERT_EQ(std::memcmp(v + (slot * 6 + d) * 4, &s.v[from], 4), 0);
          } else {
            const uint16_t key = f32_to_bf16(s.k[from]), value = f32_to_bf16(s.v[from]);
            ASSERT_EQ(std::memcmp(k + (d / 2 * 32 + slot * 2 + d % 2) * 2, &key, 2), 0);
            ASSERT_EQ(std::memcmp(v + (slot * 6 + d) * 2, &value, 2), 0);
          }
        }
      }
    }
  }
}

// One token of one head in slot 3.
class Written {
 public:
  Written(const std::vector<float>& head, DType dtype)
      : dim_(static_cast<int>(head.size())), storage_({1, 1, dim_, dtype}, 1) {
    const std::vector<BlockId> table = {BlockId{0}};
    write_kv_token({head.data(), head.data()}, 3, table, view());
  }
  uint16_t half(int d) {
    uint16_t k, v;
    std::memcpy(&k, view().k(BlockId{0}, 0) + (d * 16 + 3) * 2, 2);
    std::memcpy(&v, view().v(BlockId{0}, 0) + (3 * dim_ + d) * 2, 2);
    EXPECT_EQ(k, v);
    return k;
  }
  int code(int d) {
    const auto k = static_cast<int8_t>(view().k(BlockId{0}, 0)[d / 2 * 32 + 3 * 2 + d % 2]);
    EXPECT_EQ(k, static_cast<int8_t>(view().v(BlockId{0}, 0)[(dim_ + d) * 2 + 1]));
    return k;
  }
  float scale() {
    const PagedKvView kv = view();
    return kv.scales(kv.k(BlockId{0}, 0))[3] + 0 * kv.scales(kv.v(BlockId{0}, 0))[3];
  }

 private:
  PagedKvView view() { return storage_.layer(0); }
  int dim_;
  KvStorage storage_;
};

TEST_P(AttentionTest, HalvesAreRoundedToNearestEven) {
  for (const int dim : {2, 6, 8, 16, 18, 34, 600}) {
    std::vector<float> head = random_floats(static_cast<size_t>(dim), -1, 1, static_cast<uint64_t>(dim));
    for (size_t d = 0; d < head.size(); ++d) head[d] = std::ldexp(head[d], static_cast<int>(d) % 48 - 30);
    const float special[] = {65519.9f, -65520.0f,   0x1.002p0f,   0x1.006p0f,
                             0x1p-25f, -0x1.8p-25f, 0x1.ffep-15f, -0.0f};
    std::copy_n(special, std::min<size_t>(8, head.size()), head.begin());
    Written written(head, DType::kF16);
    for (int d = 0; d < dim; ++d)
      ASSERT_EQ(written.half(d), f32_to_f16(head[static_cast<size_t>(d)])) << head[static_cast<size_t>(d)];
  }
}

TEST_P(AttentionTest, CodesFollowTheLargestValueOfTheHead) {
  for (const int dim : {2, 6, 8, 16, 18, 34, 128, 512}) {
    for (const int exponent : {-140, -101, -100, -20, 0, 100}) {
      std::vector<float> head = random_floats(static_cast<size_t>(dim), -1, 1, static_cast<uint64_t>(dim));
      for (float& value : head) value = std::ldexp(value, exponent);
      const Codes expected = codes_of(head.data(), dim, 127);
      Written written(head, DType::kI8);
      EXPECT_EQ(written.scale(), expected.scale);
      for (int d = 0; d < dim; ++d) ASSERT_EQ(written.code(d), expected.codes[static_cast<size_t>(d)]) << dim;
    }
    for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      std::vector<float> head(static_cast<size_t>(dim), 1.0f);
      head.back() = bad;
      EXPECT_TRUE(std::isnan(Written(head, DType::kI8).scale())) << bad;
    }
  }
}

// The weights of an int8 cache are rounded relative to the largest; values of very different sizes and heads
// of zeros must not spoil that.
TEST_P(AttentionTest, Int8ValuesOfAllSizes) {
  const Shape shape{4, 1, 64, DType::kI8};
  Cache cache(shape, 40);
  Sequence s = cache.make_sequence(290, 9);
  for (size_t t = 0; t < 290; ++t) {
    const float factor = t % 5 == 0 ? 0.0f : std::ldexp(1.0f, -static_cast<int>(t % 7));
    for (size_t d = 0; d < 64; ++d) s.v[t * 64 + d] *= factor;
  }
  const auto params = params_for(shape);
  expect_close(cache, s, params, step(cache, {{&s, 0, s.tokens}}, params, pool_), 0, 7);
  std::fill(s.v.begin(), s.v.end(), 0.0f);
  for (const float value : step(cache, {{&s, 0, s.tokens}}, params, pool_)) ASSERT_EQ(value, 0.0f);
}

// The converted result is that of the rows, for decoding (split and not), prompts and shared tiles.
TEST_P(AttentionTest, ConvertsItsResultAtOnce) {
  const Shape shape{6, 2, 64, DType::kBF16};
  Cache cache(shape, 200);
  const Sequence a = cache.make_sequence(700, 3), b = cache.make_sequence(40, 4);
  AttentionParams params = params_for(shape);
  params.num_heads = shape.heads;
  const std::vector<float> all = step(cache, {{&a, 0, 700}, {&b, 0, 40}}, params, pool_, 740);
  const int64_t width = shape.heads * shape.head_dim;
  for (const int64_t first : {0, 650, 699}) {
    AttentionSequence s;
    s.num_tokens = 700 - first;
    s.first_position = first;
    s.block_table = a.blocks;
    AttentionScratch scratch(740, 700, shape.heads, shape.head_dim, 2);
    const float* const q = a.q.data() + first * width;
    const Converted expected(ConstRowsView(all.data() + first * width, s.num_tokens, width, width),
                             kMixedCodes, pool_);
    ActivationBuffer converted(s.num_tokens, width);
    converted.begin({ActivationForm::kCoded, &expected.wide}, s.num_tokens, width);
    attention({{q, s.num_tokens, width, width}, {&s, 1}, cache.view()}, params, {{}, &converted}, scratch,
              pool_);
    EXPECT_TRUE(same_activations(expected.view(), converted.view())) << first;
  }
}

PAGODA_PER_ISA(AttentionTest);

TEST(AttentionDeathTest, ChecksItsPreconditions) {
  ComputePool pool(1);
  const Shape shape{2, 2, 8, DType::kF32};
  Cache cache(shape, 4);
  AttentionScratch scratch(4, 32, 2, 8, 1);
  const std::vector<float> q(64);
  std::vector<float> out(64);
  const std::vector<BlockId> one_block = {BlockId{0}};
  AttentionSequence s;
  s.num_tokens = 1;
  s.first_position = 16;
  s.block_table = one_block;
  AttentionParams params;
  params.num_heads = 2;
  const auto run = [&](ComputePool& threads) {
    attention({{q.data(), 4, 16, 16}, {&s, 1}, cache.view()}, params, {out.data(), 4, 16, 16}, scratch,
              threads);
  };
  EXPECT_DEATH(run(pool), "1 blocks");
  params.num_heads = 3;
  EXPECT_DEATH(run(pool), "3 heads");
  params.num_heads = 2;
  ComputePool two(2);
  EXPECT_DEATH(run(two), "scratch");
}

}  // namespace
}  // namespace pagoda::kernels
