// What tensors a GGUF file gets, and in which type.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/loader/gguf_file.h"
#include "quantize/gguf/ggml_types.h"

namespace pagoda::quantize {

struct GgufTensorOut {
  std::string name;
  std::vector<int64_t> dims;  // as in the file: innermost first
  uint32_t type = 0;
  uint64_t bytes = 0;

  // One of three: bytes of another file; a vector; or the rows of matrices, one below the other.
  std::span<const uint8_t> raw;
  std::vector<float> values;
  std::vector<std::shared_ptr<const model::MatrixReader>> parts;
  int64_t interleaved_head_dim = 0;  // model/loader/float_matrix.h: stored_row
};

struct GgufTensorPlan {
  std::vector<GgufTensorOut> tensors;
  int narrow = 0;  // matrices that got a wider type, as their rows are no whole blocks of the one asked for
  GgmlType narrow_type = GgmlType::kQ8_0;
  std::vector<std::shared_ptr<const model::GgufFile>> files;  // that own `raw`
};

// Of a folder. Matrices become `type`, the embedding and the head at least Q6_K; norms, biases and routers
// stay floats. Rows that are no whole blocks get Q8_0, or F16 when they are no whole blocks of that either.
Result<GgufTensorPlan> plan_folder(const model::Checkpoint& checkpoint, GgmlType type);

// Of a GGUF file or set, whatever its architecture: tensors that have their type already, those that are
// smaller than in the type that stands in for the one asked for, and all that are no matrices, are copied.
Result<GgufTensorPlan> plan_gguf(std::vector<std::shared_ptr<const model::GgufFile>> files,
                                 model::Architecture architecture, GgmlType type);

}  // namespace pagoda::quantize
