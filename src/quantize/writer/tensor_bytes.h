// A tensor on its way into a file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::quantize {

// Takes the bytes of a tensor piece by piece.
using ByteSink = std::function<Result<void>(std::span<const uint8_t>)>;

struct OutTensor {
  std::string name;
  std::string dtype;  // as safetensors spells it: "F16", "I32", ...
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  // Gives exactly `bytes` bytes to the sink.
  std::function<Result<void>(const ByteSink&)> write;
};

// A tensor that lies in memory.
OutTensor tensor_of(std::string name, std::string dtype, std::vector<int64_t> shape,
                    std::vector<uint8_t> bytes);

}  // namespace pagoda::quantize
