// Matrices stored row by row, for N outputs and K inputs in G groups of inputs: compressed-tensors' formats
// and bitsandbytes' 8 bits.
//
// compressed-tensors, pack-quantized (int with 4 or 8 bits, P = 32 / bits):
//   weight_packed      int32 [N, ceil(K / P)]  code k = P i + j in bits [bits j, bits (j + 1)) of word i
//   weight_scale       [N, G]                  one column when per channel, one number when per tensor
//   weight_zero_point  int32 [ceil(N / P), G], packed along N, or int8 [N, G] from older writers; absent when
//                      symmetric. Codes and zero points are stored plus 2^(bits - 1).
//   weight_g_idx       int32 [K]               the group of each input, under actorder "group"
//   weight_shape       int64 [2]               N and K
// compressed-tensors, int-quantized: weight int8 [N, K], weight_scale, weight_zero_point int8.
//   w[n, k] = weight_scale[n, g] * (code - weight_zero_point[n, g])
// bitsandbytes: weight int8 [N, K], SCB f32 [N]: w[n, k] = SCB[n] / 127 * code.
// Sources: compressed-tensors 0.17, compressors/pack_quantized; bitsandbytes, int8_vectorwise_dequant.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/loader/quantization_config.h"
#include "model/loader/tensor_parts.h"
#include "model/tensor_source.h"

namespace pagoda::model {

Result<std::unique_ptr<MatrixReader>> open_compressed_matrix(const TensorParts& parts, int64_t rows,
                                                             int64_t depth, const QuantizationConfig& config);
Result<std::unique_ptr<MatrixReader>> open_bits_and_bytes_matrix(const TensorParts& parts, int64_t rows,
                                                                 int64_t depth);

}  // namespace pagoda::model
