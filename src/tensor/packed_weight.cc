#include "tensor/packed_weight.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "tensor/half.h"

namespace pagoda {
namespace {

constexpr size_t kHalfRow = kPanelRows * sizeof(uint16_t);  // 32 scales or offsets

float load_half(const uint8_t* at, int row) {
  uint16_t bits;
  std::memcpy(&bits, at + static_cast<size_t>(row) * 2, 2);
  return f16_to_f32(bits);
}

// Columns whose bits above the fourth fill one byte of each lane.
constexpr size_t high_bits_columns(WeightLayout layout) {
  return layout == WeightLayout::kW5 ? 32 : 16;
}

// Code (row, k) of a group whose codes begin at `codes`.
int code_at(WeightLayout layout, const uint8_t* codes, int row, int64_t k) {
  const auto kk = static_cast<size_t>(k), lane = static_cast<size_t>(row) * 4 + kk % 4;
  if (layout == WeightLayout::kW8) return codes[kk / 4 * 128 + lane];
  const int nibble_shift = kk % 8 < 4 ? 0 : 4;
  if (layout == WeightLayout::kW4) return codes[kk / 8 * 128 + lane] >> nibble_shift & 15;
  const size_t columns = high_bits_columns(layout), low_bytes = columns / 8 * 128, at = kk % columns;
  const uint8_t* const unit = codes + kk / columns * (low_bytes + 128);
  const int bits = code_bits(layout) - 4;
  const int high = unit[low_bytes + lane] >> (static_cast<int>(at / 4) * bits) & ((1 << bits) - 1);
  return (unit[at / 8 * 128 + lane] >> nibble_shift & 15) | high << 4;
}

size_t group_bytes(const PackedWeightSpec& spec) {
  const size_t code_bytes = static_cast<size_t>(spec.group_size * kPanelRows * code_bits(spec.layout) / 8);
  return kHalfRow * (spec.has_offsets ? 2 : 1) + code_bytes;
}

size_t bytes_of_panel(const PackedWeightSpec& spec) {
  PAGODA_CHECK(spec.rows > 0 && spec.depth > 0, "shape {} x {}", spec.rows, spec.depth);
  const auto depth = static_cast<size_t>(spec.padded_depth());
  if (spec.layout == WeightLayout::kF32) return depth * kPanelRows * 4;
  if (spec.layout == WeightLayout::kBF16) return depth * kPanelRows * 2;
  const int g = spec.group_size;
  PAGODA_CHECK(g == 16 || g == 32 || g == 64 || g == 128, "group size {}", g);
  PAGODA_CHECK(g != 16 || spec.layout != WeightLayout::kW5, "codes of 5 bits in groups of 16");
  PAGODA_CHECK(spec.padded_depth() % g == 0, "depth {} is not a multiple of the group size {}",
               spec.padded_depth(), g);
  PAGODA_CHECK(spec.zero_point >= 0 && spec.zero_point < 1 << code_bits(spec.layout));
  PAGODA_CHECK(!spec.has_offsets || spec.zero_point == 0, "offsets and a zero point exclude each other");
  return depth / static_cast<size_t>(g) * group_bytes(spec);
}

// Every layout is made of 32-bit words (one float, two bf16, four or eight codes, high bits of 16 or 32), and
// word j of row r lies at 128 j + 4 r. A run of words of each row is collected here and then transposed, so
// that source and destination stay in the first-level cache.
constexpr int kRunWords = 4, kMostRunWords = 8;
struct Run {
  alignas(64) uint32_t words[kPanelRows][kMostRunWords];

  // Writes the first `count` words of all rows to the `count` lines of 128 bytes at `out`.
  void store(int count, uint8_t* out) const noexcept {
    for (int j = 0; j < count; j += 4) {
      for (int r = 0; r < kPanelRows; r += 4) transpose_4x4(r, j, count - j, out + j * 128);
    }
  }

 private:
  // Words [j, j + 4) of rows [r, r + 4); the first `count` of them are written.
  void transpose_4x4(int r, int j, int count, uint8_t* out) const noexcept {
    const auto load = [&](int row) {
      return _mm_load_si128(reinterpret_cast<const __m128i*>(words[row] + j));
    };
    const __m128i a = load(r), b = load(r + 1), c = load(r + 2), d = load(r + 3);
    const __m128i ab_low = _mm_unpacklo_epi32(a, b), ab_high = _mm_unpackhi_epi32(a, b);
    const __m128i cd_low = _mm_unpacklo_epi32(c, d), cd_high = _mm_unpackhi_epi32(c, d);
    const auto store = [&](int word, __m128i value) {
      if (word >= count) return;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + word * 128 + r * 4), value);
    };
    store(0, _mm_unpacklo_epi64(ab_low, cd_low));
    store(1, _mm_unpackhi_epi64(ab_low, cd_low));
    store(2, _mm_unpacklo_epi64(ab_high, cd_high));
    store(3, _mm_unpackhi_epi64(ab_high, cd_high));
  }
};

void pack_f32(const PanelSource& source, int64_t depth, uint8_t* out) {
  Run run;
  std::memset(run.words, 0, sizeof(run.words));
  for (int64_t first = 0; first < round_up(depth, kDepthMultiple); first += kRunWords) {
    const auto count = static_cast<size_t>(std::clamp<int64_t>(depth - first, 0, kRunWords));
    for (int row = 0; row < source.num_rows; ++row) {
      uint32_t* const words = run.words[row];
      if (count < kRunWords) std::memset(words, 0, kRunWords * 4);
      if (count > 0) std::memcpy(words, source.values + row * source.value_stride + first, count * 4);
    }
    run.store(kRunWords, out + first * 128);
  }
}

void pack_bf16(const PanelSource& source, int64_t depth, uint8_t* out) {
  constexpr int64_t kColumns = 2 * kRunWords;
  Run run;
  std::memset(run.words, 0, sizeof(run.words));
  for (int64_t first = 0; first < round_up(depth, kDepthMultiple); first += kColumns) {
    const int64_t count = std::clamp<int64_t>(depth - first, 0, kColumns);
    for (int row = 0; row < source.num_rows; ++row) {
      float values[kColumns] = {};
      if (count > 0) {
        std::memcpy(values, source.values + row * source.value_stride + first,
                    static_cast<size_t>(count) * 4);
      }
      for (int j = 0; j < kRunWords; ++j) {
        run.words[row][j] = f32_to_bf16(values[2 * j]) | static_cast<uint32_t>(f32_to_bf16(values[2 * j + 1]))
                                                             << 16;
      }
    }
    run.store(kRunWords, out + first * 64);
  }
}

// f32_to_f16 without branches, so that a loop over it becomes vector code. Only for finite values.
inline uint16_t finite_f32_to_f16(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  const int32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  const int32_t small = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const int32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
  int32_t half = magnitude < 0x38800000 ? small : normal;
  half = magnitude >= 0x477ff000 ? 0x7c00 : half;
  return static_cast<uint16_t>(sign | half);
}

constexpr int kGroupRun = 8;  // groups whose scales are converted together
struct GroupRun {
  int64_t first = 0, count = 0, total = 0;  // `total` groups make a row
  size_t stride = 0;                        // bytes between two groups of a panel
};

// Scales or offsets of groups [first, first + count): that of row r and group g goes to half r of the line at
// out + (g - first) * stride.
void pack_halves(const PanelSource& source, const float* values, const GroupRun& groups, uint8_t* out) {
  uint16_t halves[kGroupRun][kPanelRows] = {};
  for (int row = 0; row < source.num_rows; ++row) {
    float run[kGroupRun] = {};
    const float* const from = values + row * groups.total + groups.first;
    if (groups.count == kGroupRun) {
      std::memcpy(run, from, sizeof(run));
    } else {
      std::copy_n(from, groups.count, run);
    }
    uint16_t converted[kGroupRun];
    for (int g = 0; g < kGroupRun; ++g) converted[g] = finite_f32_to_f16(run[g]);
    for (int g = 0; g < kGroupRun; ++g) halves[g][row] = converted[g];
  }
  for (int64_t g = 0; g < groups.count; ++g) {
    std::memcpy(out + static_cast<size_t>(g) * groups.stride, halves[g], kHalfRow);
  }
}

// How the codes of one row become words.
template <WeightLayout kLayout>
struct CodeRun {
  static constexpr int64_t kColumns = kLayout == WeightLayout::kW4 || kLayout == WeightLayout::kW5 ? 32 : 16;
  // Of that many columns; groups of 16 end a run of kW4 early.
  static constexpr int words_of(int64_t columns) {
    return static_cast<int>(columns) * code_bits(kLayout) / 32;
  }

  static __m128i load(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  static void store(uint32_t* to, __m128i words) { _mm_store_si128(reinterpret_cast<__m128i*>(to), words); }

  // Every second four codes are the low nibbles of a word, the others its high ones.
  static __m128i nibbles(__m128i first, __m128i second) {
    const __m128i mask = _mm_set1_epi8(15);
    const __m128 a = _mm_castsi128_ps(_mm_and_si128(first, mask));
    const __m128 b = _mm_castsi128_ps(_mm_and_si128(second, mask));
    const __m128i low = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
    const __m128i high = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    return _mm_or_si128(low, _mm_slli_epi32(high, 4));
  }

  // The bits above the fourth of kColumns codes.
  static uint32_t high_bits(const uint8_t* codes) {
    constexpr int kBits = code_bits(kLayout) - 4;
    constexpr uint32_t kMask = kBits == 1 ? 0x01010101 : 0x03030303;
    uint32_t word = 0;
    for (int i = 0; i < kColumns / 4; ++i) {
      uint32_t four;
      std::memcpy(&four, codes + i * 4, 4);
      word |= (four >> 4 & kMask) << (i * kBits);
    }
    return word;
  }

  static void make(const uint8_t* codes, uint32_t* words) {
    if constexpr (kLayout == WeightLayout::kW8) return store(words, load(codes));
    if constexpr (kLayout == WeightLayout::kW6) {
      store(words, nibbles(load(codes), _mm_setzero_si128()));
      words[2] = high_bits(codes);
    } else {
      store(words, nibbles(load(codes), load(codes + 16)));
      if (kLayout == WeightLayout::kW5) words[4] = high_bits(codes);
    }
  }
};

// The codes of one group, which begins at column `first`.
template <WeightLayout kLayout>
void pack_group_codes(const PackedWeightSpec& spec, const PanelSource& source, int64_t first, uint8_t* out) {
  using Codes = CodeRun<kLayout>;
  constexpr int64_t kColumns = Codes::kColumns;
  // Padding must be zero weights: with a zero point that is the code zero_point under any scale.
  uint8_t padded[kColumns];
  Run run;
  for (int64_t begin = 0; begin < spec.group_size; begin += kColumns) {
    const int64_t wanted = std::min<int64_t>(kColumns, spec.group_size - begin);
    const int64_t real = std::clamp<int64_t>(spec.depth - first - begin, 0, wanted);
    for (int row = 0; row < kPanelRows; ++row) {
      const uint8_t* codes = source.codes + row * source.code_stride + first + begin;
      if (row >= source.num_rows || real < kColumns) {
        std::memset(padded, spec.zero_point, sizeof(padded));
        if (row < source.num_rows && real > 0) std::memcpy(padded, codes, static_cast<size_t>(real));
        codes = padded;
      }
      Codes::make(codes, run.words[row]);
    }
    run.store(Codes::words_of(wanted), out + Codes::words_of(begin) * 128);
  }
}

template <WeightLayout kLayout>
void pack_codes(const PackedWeightSpec& spec, const PanelSource& source, uint8_t* out) {
  const size_t stride = group_bytes(spec), scale_bytes = kHalfRow * (spec.has_offsets ? 2 : 1);
  GroupRun groups;
  groups.total = spec.padded_depth() / spec.group_size;
  groups.stride = stride;
  for (; groups.first < groups.total; groups.first += kGroupRun) {
    groups.count = std::min<int64_t>(kGroupRun, groups.total - groups.first);
    uint8_t* const scales = out + static_cast<size_t>(groups.first) * stride;
    pack_halves(source, source.scales, groups, scales);
    if (spec.has_offsets) pack_halves(source, source.offsets, groups, scales + kHalfRow);
    for (int64_t g = 0; g < groups.count; ++g) {
      pack_group_codes<kLayout>(spec, source, (groups.first + g) * spec.group_size,
                                scales + static_cast<size_t>(g) * stride + scale_bytes);
    }
  }
}

}  // namespace

std::string_view weight_layout_name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kF32:
      return "f32";
    case WeightLayout::kBF16:
      return "bf16";
    case WeightLayout::kW8:
      return "w8";
    case WeightLayout::kW6:
      return "w6";
    case WeightLayout::kW5:
      return "w5";
    case WeightLayout::kW4:
      return "w4";
  }
  return "?";
}

size_t PackedWeight::bytes_for(const PackedWeightSpec& spec) {
  return bytes_of_panel(spec) * static_cast<size_t>(spec.padded_rows() / kPanelRows);
}

PackedWeight::PackedWeight(const PackedWeightSpec& spec)
    : PackedWeight(spec, share_buffer(AlignedBuffer(bytes_for(spec)))) {}

PackedWeight::PackedWeight(const PackedWeightSpec& spec, std::shared_ptr<uint8_t> panels)
    : spec_(spec), panel_bytes_(bytes_of_panel(spec)), panels_(panels), writable_(panels.get()) {}

PackedWeight::PackedWeight(const PackedWeightSpec& spec, std::shared_ptr<const uint8_t> panels)
    : spec_(spec), panel_bytes_(bytes_of_panel(spec)), panels_(std::move(panels)) {}

void PackedWeight::pack_panel(int64_t index, const PanelSource& source) noexcept {
  PAGODA_CHECK(writable_ != nullptr && index < num_panels(), "panel {} of {}", index, num_panels());
  uint8_t* const out = writable_ + static_cast<size_t>(index) * panel_bytes_;
  switch (spec_.layout) {
    case WeightLayout::kF32:
      return pack_f32(source, spec_.depth, out);
    case WeightLayout::kBF16:
      return pack_bf16(source, spec_.depth, out);
    case WeightLayout::kW8:
      return pack_codes<WeightLayout::kW8>(spec_, source, out);
    case WeightLayout::kW6:
      return pack_codes<WeightLayout::kW6>(spec_, source, out);
    case WeightLayout::kW5:
      return pack_codes<WeightLayout::kW5>(spec_, source, out);
    case WeightLayout::kW4:
      return pack_codes<WeightLayout::kW4>(spec_, source, out);
  }
}

void PackedWeight::unpack_row(int64_t row, std::span<float> out) const noexcept {
  PAGODA_CHECK(row >= 0 && row < spec_.rows && out.size() >= static_cast<size_t>(spec_.depth));
  const uint8_t* const base = panel(row / kPanelRows);
  const int r = static_cast<int>(row % kPanelRows);
  for (int64_t k = 0; k < spec_.depth; ++k) {
    const auto kk = static_cast<size_t>(k);
    float& w = out[kk];
    if (spec_.layout == WeightLayout::kF32) {
      std::memcpy(&w, base + (kk * kPanelRows + static_cast<size_t>(r)) * 4, 4);
    } else if (spec_.layout == WeightLayout::kBF16) {
      uint16_t bits;
      std::memcpy(&bits, base + (kk / 2 * kPanelRows * 2 + static_cast<size_t>(r) * 2 + kk % 2) * 2, 2);
      w = bf16_to_f32(bits);
    } else {
      const uint8_t* const scales = base + kk / static_cast<size_t>(spec_.group_size) * group_bytes(spec_);
      const uint8_t* const codes = scales + kHalfRow * (spec_.has_offsets ? 2 : 1);
      const int code = code_at(spec_.layout, codes, r, k % spec_.group_size);
      w = load_half(scales, r) * spec_.scale_multiplier * static_cast<float>(code - spec_.zero_point);
      if (spec_.has_offsets) w += load_half(scales + kHalfRow, r) * spec_.offset_multiplier;
    }
  }
}

float f16_multiplier(float max_abs) {
  if (!(max_abs > 0) || !std::isfinite(max_abs)) return 1.0f;
  return std::ldexp(1.0f, std::ilogb(max_abs) - 9);
}

}  // namespace pagoda
