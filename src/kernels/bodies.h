// What a tier (scalar, avx2, avx512) implements: tables of functions over raw pointers, one table per op.
// The files of a tier include this header and nothing else of ours: it holds plain structs only, so that no
// inline or template function can be compiled with a tier's flags and then be shared by the linker with code
// for every CPU.
#pragma once

#include <cstdint>

namespace pagoda::kernels {

// One panel of 32 weight rows times all activation rows. The layout of `weights` is that of
// tensor/packed_weight.h.
//
// Coded layouts, per activation row and lane; every tier and every number of rows computes exactly this:
//   acc = 0
//   for each weight group:
//     t = 0;  for each activation group of 32 in it (half of one when the weight group is 16):
//       t = fma(scales[a], float(sum of (code - zero_point) * x), t)      the inner sum is exact in int32:
//                                                                     32 * 255 * 32512 < 2^31
//     acc = fma(scale, t, acc)
//     if offsets:  u = sum over the same activation groups of scaled_sums[a], ascending
//                  acc = fma(offset * offset_ratio, u, acc)                   for groups of 16: u = scales[a]
//                  * sum16
//   y = acc * multiplier;  y += bias;  y += out if accumulate
// scale and offset are the stored f16 values; multiplier and offset_ratio are powers of two.
// Float layouts accumulate in ascending k; kBF16 takes the odd element of each pair of k first (as vdpbf16ps
// does).
struct MatmulPanel {
  const uint8_t* weights;
  int64_t depth;  // padded; a multiple of group_size
  int group_size;
  bool has_offsets;
  int zero_point;
  float multiplier;    // scale_multiplier
  float offset_ratio;  // offset_multiplier / scale_multiplier

  int64_t rows;  // activation rows, >= 1; the arrays are those of Activations
  const float* f32;
  const uint16_t* bf16;
  const int8_t* codes;
  const uint8_t* wide;      // per activation group: 1 = wide, x is 256 * code + low code; 0 = x is the code
  const int8_t* low_codes;  // row r at + r * low_depth: 32 low codes for each wide group, in ascending k
  int64_t low_depth;        // 0: no group is wide
  const float* scales;
  const int32_t* sums;
  const float* scaled_sums;

  float* out;  // 32 floats per activation row, rows out_stride apart
  int64_t out_stride;
  const float* bias;  // 32 floats or null
  bool accumulate;
};

struct MatmulBody {
  void (*f32)(const MatmulPanel& panel);
  void (*bf16)(const MatmulPanel& panel);
  void (*w8)(const MatmulPanel& panel);
  void (*w6)(const MatmulPanel& panel);
  void (*w5)(const MatmulPanel& panel);
  void (*w4)(const MatmulPanel& panel);
};

// Where the groups of a row go. low_codes advances by 32 per wide group.
struct QuantizedGroups {
  const uint8_t* wide;  // per group
  int8_t* codes;
  int8_t* low_codes;
  float* scales;
  int32_t* sums;
  float* scaled_sums;
};

struct ActivationBody {
  // `groups` groups of 32 floats. Per group: scale = max|x| / 127, code = x * (127 / max|x|) to nearest even,
  // sums of 16 codes, scaled_sum = scale * sum of 32. A maximum below 2^-100 counts as zero: scale 0, codes
  // 0. Where a value is NaN or infinite the scale becomes NaN, so that the result shows it.
  // A wide group: the same with 32512 = 127 * 256 for 127, and the code split into 256 * high + low. A low
  // byte of -128 becomes -127 (one part in 32512): both bytes can be negated, whatever a body does with
  // signs.
  void (*quantize)(const float* x, int64_t groups, const QuantizedGroups& out);
  // To nearest even; the avx512 tier may flush subnormals to zero.
  void (*round_bf16)(const float* x, int64_t count, uint16_t* out);
};

struct NormBody {
  // 32 partial sums, lane i over the elements i mod 32 in ascending order (multiply, then add); then lanes i
  // and i + 16, i + 8, i + 4, i + 2, i + 1 are added. Missing elements count as zero.
  float (*sum_of_squares)(const float* x, int64_t size);
  // y = (x * factor) * weight
  void (*scale_row)(const float* x, const float* weight, float factor, int64_t size, float* y);
};

// Of one row; factor = 1 / sqrt(variance + eps).
struct LayerStatistics {
  float mean, factor;
};

// A piece of a row and of the norm's parameters.
struct LayerNormPiece {
  const float* weight;
  const float* bias;
  LayerStatistics row;
};

// All tiers compute exactly the same (kernels/layer_norm_body.h).
struct LayerNormBody {
  LayerStatistics (*statistics)(const float* x, int64_t size, float eps);
  // y = (x - mean) * factor * weight + bias, each operation rounded; y may be x.
  void (*apply)(const float* x, const LayerNormPiece& piece, int64_t size, float* y);
};

struct GatedBody {
  void (*silu)(const float* gate, const float* up, int64_t size, float* y);
  void (*gelu_tanh)(const float* gate, const float* up, int64_t size, float* y);
};

struct RopeBody {
  // a = x[i], b = x[i + half]: x[i] = a * cos - b * sin, x[i + half] = b * cos + a * sin; each product is
  // rounded.
  void (*rotate)(float* x, int64_t half, const float* cos, const float* sin);
};

struct LogitCapBody {
  void (*scale)(float* x, float factor, int64_t size);  // x = x * factor
  // x = cap * tanh(x * scale / cap)
  void (*cap)(float* x, float scale, float cap, int64_t size);
};

inline constexpr int64_t kLogitsBlock = 256;  // a block's maximum costs little, and to skip it saves a lot

// Values that were chosen and where they were.
struct Selection {
  int32_t* ids;
  float* values;
  int64_t count;
};

struct LogitsBody {
  float (*max_value)(const float* x, int64_t size);                  // NaN ignored; -inf if none
  int64_t (*find_equal)(const float* x, int64_t size, float value);  // lowest index or size
  int64_t (*find_greater)(const float* x, int64_t begin, int64_t size,
                          float value);  // lowest index >= begin or size
  int64_t (*count_greater)(const float* x, int64_t size, float value);
  // Sum of exp(x - max) in double; NaN and -inf count as 0. Writes the terms to `out` unless it is null.
  double (*exp_sum)(const float* x, int64_t size, float max, float* out);
  // max_value of each kLogitsBlock values; true if a value is NaN.
  bool (*block_maxima)(const float* x, int64_t size, float* maxima);
  // Appends all x[i] >= least, begin <= i < end, ascending. out.values may be x.
  void (*select)(const float* x, int64_t begin, int64_t end, float least, Selection& out);
  // out[i] = exp((x[i] - max) / temperature), 0 for NaN; `out` may be x. Returns sum_lanes of out.
  double (*weigh)(const float* x, int64_t size, float max, float temperature, float* out);
  // In double: lane i over the elements i mod 8 of the whole groups of 8, ascending; then the other elements,
  // ascending, plus lane 0, 1, .. 7. The same on every tier.
  double (*sum_lanes)(const float* x, int64_t size);
};

inline constexpr int kAttentionRows = 8;  // query rows of one tile: 2 x 8 accumulators and their operands fit
inline constexpr int kAttentionPartition = 256;   // = kKvPartition
inline constexpr int kAttentionBlockTokens = 16;  // = kKvBlockTokens

// Query rows of one kv head against one partition. All rows share K and V; each row has its own token range.
struct AttentionTile {
  int rows;          // 1..kAttentionRows
  int head_dim;      // even
  const uint8_t* q;  // [rows][head_dim]: f32 for f32 and f16 caches, bf16, int16 codes for int8 caches
  float q_scale[kAttentionRows];  // of the rows' codes; int8 caches only
  const uint8_t*
      k_blocks[kAttentionPartition / kAttentionBlockTokens];  // set where a row's range touches the block
  const uint8_t* v_blocks[kAttentionPartition / kAttentionBlockTokens];
  // Memory that will be read soon; a body may prefetch it block by block while it computes. Either null or
  // areas of a block's K (or V) each: beside the scores of block b, and beside its weighted values.
  const uint8_t* beside_scores[2][kAttentionPartition / kAttentionBlockTokens];
  const uint8_t* beside_values[2][kAttentionPartition / kAttentionBlockTokens];
  int begin[kAttentionRows], end[kAttentionRows];  // the row's tokens in the partition; begin == end: none
  float scale, softcap;
  float* scores;      // scratch [kAttentionRows][kAttentionPartition], 64-byte aligned
  uint16_t* weights;  // scratch of the same shape for bf16 and int8 caches
  // Results. Row r of values at values + r * value_stride: sum of exp(s - max) v; not written for an empty
  // range, whose max is -inf. Nothing of tokens outside a row's range enters its result, whatever K and V
  // hold there.
  float* values;
  int64_t value_stride;
  float max[kAttentionRows], sum[kAttentionRows];
};

// Blocks that some row of a tile has tokens in.
struct BlockRange {
  int begin, end;
};

// int8 caches, on every tier: with codes q of the row (int16) and k, v of a token, and its scales,
//   score  = float(sum of q * k) * ((q_scale * scale) * k_scale)       the sum is exact in int32
//   weight = exp(score - max) * v_scale, as an int16 code of the row: weight * (32767 / largest) to nearest
//   even value  = float(sum of weight code * v code) * (largest / 32767)    exact: 256 * 32767 * 127 < 2^31
// so the order of sums does not matter, and tokens outside a row's range have weight code 0. tile.sum is that
// of exp(score - max).
struct AttentionBody {
  void (*f32)(AttentionTile& tile);
  void (*f16)(AttentionTile& tile);
  void (*bf16)(AttentionTile& tile);
  void (*int8)(AttentionTile& tile);
  // Codes of a row: scale = max|x| / limit, code = x * (limit / max|x|) to nearest even; returns the scale. A
  // maximum below 2^-100 counts as zero: scale 0, codes 0. Where a value is NaN or infinite, the scale is
  // NaN.
  float (*quantize)(const float* x, int64_t size, float limit, int16_t* codes);
  // To nearest even; beyond 65504 infinite.
  void (*round_f16)(const float* x, int64_t size, uint16_t* out);
  // acc = acc * a + part * b, each product rounded.
  void (*merge)(float* acc, float a, const float* part, float b, int64_t size);
  void (*scale)(const float* x, float factor, int64_t size, float* y);  // y = x * factor
};

// One head of one sequence. All tiers compute exactly the same (kernels/encoder_body.h).
struct EncoderAttentionHead {
  const float* q;  // of the sequence's first token; tokens are `stride` apart
  const float* k;
  const float* v;
  int64_t stride;
  float* out;
  int64_t out_stride;
  int64_t tokens;
  int64_t head_dim;
  float scale;
  float* scratch;  // padded tokens * (2 * padded head_dim + 4), both padded to 16
};

struct EncoderBody {
  void (*gelu_erf)(float* x, int64_t size);
  void (*attend)(const EncoderAttentionHead& head);
};

namespace scalar {
extern const MatmulBody matmul_body;
extern const ActivationBody activation_body;
extern const NormBody norm_body;
extern const LayerNormBody layer_norm_body;
extern const GatedBody gated_body;
extern const RopeBody rope_body;
extern const LogitCapBody logit_cap_body;
extern const LogitsBody logits_body;
extern const AttentionBody attention_body;
extern const EncoderBody encoder_body;
}  // namespace scalar

namespace avx2 {
extern const MatmulBody matmul_body;
extern const ActivationBody activation_body;
extern const NormBody norm_body;
extern const LayerNormBody layer_norm_body;
extern const GatedBody gated_body;
extern const RopeBody rope_body;
extern const LogitCapBody logit_cap_body;
extern const LogitsBody logits_body;
extern const AttentionBody attention_body;
extern const EncoderBody encoder_body;
}  // namespace avx2

namespace avx512 {
extern const MatmulBody matmul_body;
extern const ActivationBody activation_body;
extern const NormBody norm_body;
extern const LayerNormBody layer_norm_body;
extern const GatedBody gated_body;
extern const RopeBody rope_body;
extern const LogitCapBody logit_cap_body;
extern const LogitsBody logits_body;
extern const AttentionBody attention_body;
extern const EncoderBody encoder_body;
}  // namespace avx512

}  // namespace pagoda::kernels
