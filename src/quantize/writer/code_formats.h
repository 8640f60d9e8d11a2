// Coded matrices as the tensors of the formats in use. model/loader/gptq_matrix.h, awq_matrix.h and
// compressed_matrix.h describe the layouts and read them.
#pragma once

#include <string>
#include <vector>

#include "quantize/coded_matrix.h"
#include "quantize/writer/tensor_bytes.h"

namespace pagoda::quantize {

// The format of a GPTQ folder: "gptq", whose zero points are stored minus one, for symmetric codes, which
// every tool reads. With zero points of their own it is "gptq_v2", which stores them as they are: GPTQModel
// refuses "gptq" of others there, as some of them got the one wrong.
const char* gptq_format(bool symmetric);

// "<stem>.qweight", ".qzeros" (as gptq_format says), ".scales" in f16 and ".g_idx". Rows and depth are
// multiples of 32 / bits.
std::vector<OutTensor> gptq_tensors(const std::string& stem, const CodedMatrix& matrix);

// "<stem>.qweight", ".qzeros" and ".scales", version "gemm". 4 bits; rows are a multiple of 8; groups of
// neighbouring columns.
std::vector<OutTensor> awq_tensors(const std::string& stem, const CodedMatrix& matrix);

// Symmetric signed bytes with one scale a row, as compressed-tensors' "int-quantized" has them.
struct ChannelCodes {
  int64_t rows = 0, depth = 0;
  std::vector<int8_t> codes;     // [rows, depth]
  std::vector<uint16_t> scales;  // [rows], in `dtype`
  std::string dtype;             // "F16" or "BF16"
};
ChannelCodes round_channels(const float* values, int64_t rows, int64_t depth, const std::string& dtype,
                            ComputePool& pool);
// "<stem>.weight" and ".weight_scale".
std::vector<OutTensor> channel_tensors(const std::string& stem, const ChannelCodes& matrix);

}  // namespace pagoda::quantize
