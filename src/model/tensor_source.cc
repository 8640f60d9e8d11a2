#include "model/tensor_source.h"

namespace pagoda::model {

void MatrixReader::read_transposed(int64_t first, int64_t count, float* values) const {
  std::vector<float> row(static_cast<size_t>(depth()));
  for (int64_t r = 0; r < rows(); ++r) {
    read_values(r, 1, row.data());
    for (int64_t c = 0; c < count; ++c) values[c * rows() + r] = row[static_cast<size_t>(first + c)];
  }
}

}  // namespace pagoda::model
