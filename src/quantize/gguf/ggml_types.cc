#include "quantize/gguf/ggml_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "model/loader/gguf_file.h"
#include "quantize/gguf/k_blocks.h"
#include "tensor/half.h"

namespace pagoda::quantize {
namespace {

constexpr std::array<std::pair<std::string_view, GgmlType>, 5> kNames = {{{"q4_0", GgmlType::kQ4_0},
                                                                          {"q8_0", GgmlType::kQ8_0},
                                                                          {"q4_k", GgmlType::kQ4_K},
                                                                          {"f16", GgmlType::kF16},
                                                                          {"f32", GgmlType::kF32}}};

constexpr int64_t kSmallBlock = 32;

const model::GgmlType& info(GgmlType type) {
  const model::GgmlType* const found = model::find_ggml_type(static_cast<uint32_t>(type));
  PAGODA_CHECK(found != nullptr, "type {}", static_cast<uint32_t>(type));
  return *found;
}

// w = d * (q - 8). The value of the largest magnitude becomes -8, of which there is no positive counterpart.
void encode_q4_0(const float* x, uint8_t* out) {
  float extreme = 0;
  for (int j = 0; j < kSmallBlock; ++j) {
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  }
  const float d = extreme / -8.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
  store_half(out, d);
  // Half up, as the format's reference rounds: 8.5 and a cut.
  const auto code = [&](float value) { return std::min(15, static_cast<int>(value * inverse + 8.5f)); };
  for (int j = 0; j < 16; ++j) out[2 + j] = static_cast<uint8_t>(code(x[j]) | code(x[j + 16]) << 4);
}

// w = d * q.
void encode_q8_0(const float* x, uint8_t* out) {
  float largest = 0;
  for (int j = 0; j < kSmallBlock; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float d = largest / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
  store_half(out, d);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[j] * inverse)));
  }
}

using EncodeBlock = void (*)(const float* values, uint8_t* out);

EncodeBlock encoder(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_0:
      return encode_q4_0;
    case GgmlType::kQ8_0:
      return encode_q8_0;
    case GgmlType::kQ4_K:
      return encode_q4_k;
    case GgmlType::kQ6_K:
      return encode_q6_k;
    case GgmlType::kF16:
      return [](const float* value, uint8_t* out) { store_half(out, *value); };
    case GgmlType::kF32:
      break;
  }
  return [](const float* value, uint8_t* out) { std::memcpy(out, value, sizeof(float)); };
}

}  // namespace

std::optional<GgmlType> ggml_type_from_name(std::string_view name) {
  for (const auto& [known, type] : kNames) {
    if (known == name) return type;
  }
  return std::nullopt;
}

std::string_view ggml_type_name(uint32_t type) {
  const model::GgmlType* const found = model::find_ggml_type(type);
  return found == nullptr ? "?" : found->name;
}

int64_t block_elements(GgmlType type) {
  return info(type).block_elements;
}

uint64_t row_bytes(GgmlType type, int64_t depth) {
  PAGODA_CHECK(depth % block_elements(type) == 0, "{} elements in blocks of {}", depth, block_elements(type));
  return static_cast<uint64_t>(depth / block_elements(type)) * info(type).block_bytes;
}

void encode_row(GgmlType type, const float* values, int64_t depth, uint8_t* out) {
  const EncodeBlock encode = encoder(type);
  const int64_t elements = block_elements(type), bytes = info(type).block_bytes;
  for (int64_t b = 0; b < depth / elements; ++b) encode(values + b * elements, out + b * bytes);
}

}  // namespace pagoda::quantize
