// AWQ matrices as AutoAWQ's version "gemm" stores them, for K inputs and N outputs in G groups of inputs:
//   qweight int32 [K, N / 8]   nibble i of word (k, c) is the code of output 8 c + [0, 2, 4, 6, 1, 3, 5,
//   7][i] qzeros  int32 [G, N / 8]   zero points, in the same order, stored as they are scales  f16 [G, N]
// with w[n, k] = scales[g, n] * (code - zero[g, n]), g = k / group size.
// Source: AutoAWQ, awq/modules/linear/gemm.py and awq/utils/packing_utils.py.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/loader/quantization_config.h"
#include "model/loader/tensor_parts.h"
#include "model/tensor_source.h"

namespace pagoda::model {

Result<std::unique_ptr<MatrixReader>> open_awq_matrix(const TensorParts& parts, int64_t rows, int64_t depth,
                                                      const QuantizationConfig& config);

}  // namespace pagoda::model
