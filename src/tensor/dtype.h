// Element types of weights in files and of the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pagoda {

enum class DType : uint8_t { kF32, kF16, kBF16, kI8 };

constexpr size_t dtype_bytes(DType type) {
  return type == DType::kF32 ? 4 : type == DType::kI8 ? 1 : 2;
}

constexpr std::string_view dtype_name(DType type) {
  switch (type) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kI8:
      return "int8";
  }
  return "?";
}

}  // namespace pagoda
