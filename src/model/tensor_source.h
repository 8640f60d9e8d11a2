// Named tensors of a checkpoint, whatever the file format.
//
// Names are Hugging Face's ("model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight",
// "lm_head.weight", "model.norm.weight"); a GGUF source translates, and undoes the interleaved q/k row order
// of llama-architecture files. Shapes are row-major, outputs first: a matrix is [rows N, columns K].
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::model {

// How the codes of a quantised matrix are to be read: w = scale * (code - zero_point), or
// w = scale * code + offset.
struct CodeScheme {
  int bits = 0;         // 1 to 8: codes fit that many bits unsigned; 0 = the matrix holds plain floats
  int group_size = 32;  // 16 or 32 (64, 128 for other formats)
  bool has_offsets = false;
  int zero_point = 0;
};

// One matrix, read by rows. Thread-safe: several threads may read different rows at once.
class MatrixReader {
 public:
  virtual ~MatrixReader() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t depth() const = 0;
  virtual CodeScheme scheme() const = 0;
  // For messages: "<file>: tensor '<name>'".
  virtual std::string describe() const { return "a matrix"; }
  // The largest |scale| and |offset| of rows [first, first + count), for the f16 multipliers; NaN when one of
  // them is no number. Only when scheme().bits != 0.
  struct Range {
    float max_scale = 0, max_offset = 0;
  };
  virtual Range code_range(int64_t first, int64_t count) const = 0;
  // Rows [first, first + count) as codes [count, depth], scales and offsets [count, depth / group_size]
  // (offsets may be null when the scheme has none). Only when scheme().bits != 0.
  virtual void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales,
                          float* offsets) const = 0;
  // read_codes gives column column_order()[j] of the matrix as column j; empty: the columns as they are.
  // Floats are always in the matrix's own order.
  virtual std::span<const int32_t> column_order() const { return {}; }
  // Rows as exact floats [count, depth]; bit-identical to the format's reference dequantisation.
  virtual void read_values(int64_t first, int64_t count, float* values) const = 0;
  // Columns [first, first + count) of all rows, as exact floats [count, rows]: rows of the transposed matrix.
  // Reads row by row unless the format knows better.
  virtual void read_transposed(int64_t first, int64_t count, float* values) const;
  // The matrix has been read and will hardly be again: memory that holds its file's pages may go. Reading it
  // again works, and costs page faults.
  virtual void release_pages() const {}
};

struct TensorInfo {
  std::string name;            // as the model asks for it
  std::vector<int64_t> shape;  // outputs first
  std::string format;          // "Q4_K", "BF16", ...
  uint64_t bytes = 0;          // in the file
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::vector<TensorInfo> list() const = 0;
  virtual bool contains(const std::string& name) const = 0;
  // kCorruptFile naming file, tensor and offset when the tensor is absent or has another shape,
  // kUnsupportedModel when its type can't be run. Readers keep the file mapped for as long as they live.
  virtual Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                                       int64_t depth) const = 0;
  virtual Result<std::vector<float>> vector(const std::string& name, int64_t size) const = 0;
};

}  // namespace pagoda::model
