// GPTQ matrices as AutoGPTQ and GPTQModel store them, for K inputs and N outputs in G groups of inputs:
//   qweight int32 [K / P, N]   code k = P i + j of output n in bits [bits j, bits (j + 1)) of word (i, n)
//   qzeros  int32 [G, N / P]   zero points, packed likewise along N; each minus one in the format "gptq"
//   scales  f16 [G, N]
//   g_idx   int32 [K]          the group of each input; absent or zeros: they follow each other
// with P = 32 / bits and w[n, k] = scales[g, n] * (code - zero[g, n]), g = g_idx[k].
// Source: AutoGPTQ's qlinear_cuda_old and GPTQModel's torch kernel. A stored zero of all ones means zero:
// writers subtract one without looking, 0 - 1 = 15, and AutoGPTQ's kernels mask what they add.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/loader/quantization_config.h"
#include "model/loader/tensor_parts.h"
#include "model/tensor_source.h"

namespace pagoda::model {

Result<std::unique_ptr<MatrixReader>> open_gptq_matrix(const TensorParts& parts, int64_t rows, int64_t depth,
                                                       const QuantizationConfig& config);

}  // namespace pagoda::model
