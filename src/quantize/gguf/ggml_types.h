// The types of GGUF tensors that can be written, and rows of floats rounded to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pagoda::quantize {

// Numbers of ggml.h; model/loader/gguf_file.h knows their names and sizes.
enum class GgmlType : uint32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ8_0 = 8, kQ4_K = 12, kQ6_K = 14 };

// "q4_0", "q8_0", "q4_k", "f16" or "f32": what --type may be.
std::optional<GgmlType> ggml_type_from_name(std::string_view name);
// "Q4_0" for any type of the format.
std::string_view ggml_type_name(uint32_t type);

// Elements that a row has to be a multiple of.
int64_t block_elements(GgmlType type);
uint64_t row_bytes(GgmlType type, int64_t depth);

// One row of `depth` finite values of magnitude at most kLargestValue, into row_bytes(type, depth) bytes.
constexpr float kLargestValue = 65504.0f;  // what float16, in which all scales are stored, can hold
void encode_row(GgmlType type, const float* values, int64_t depth, uint8_t* out);

}  // namespace pagoda::quantize
