#include "kernels/rope.h"

#include <cmath>

#include "base/check.h"
#include "kernels/dispatch.h"

namespace pagoda::kernels {

RopeTable::RopeTable(const std::vector<double>& inv_freq, int64_t max_positions, double magnitude)
    : half_(static_cast<int>(inv_freq.size())),
      max_positions_(max_positions),
      cos_(inv_freq.size() * static_cast<size_t>(max_positions)),
      sin_(cos_.size()) {
  size_t at = 0;
  for (int64_t position = 0; position < max_positions; ++position) {
    for (const double frequency : inv_freq) {
      const double angle = static_cast<double>(position) * frequency;
      cos_[at] = static_cast<float>(std::cos(angle) * magnitude);
      sin_[at] = static_cast<float>(std::sin(angle) * magnitude);
      ++at;
    }
  }
}

void rope_row(float* x, const RopeTable& table, int64_t position) noexcept {
  PAGODA_CHECK(position >= 0 && position < table.max_positions(), "position {} of {}", position,
               table.max_positions());
  pick(scalar::rope_body, avx2::rope_body, avx512::rope_body)
      .rotate(x, table.rotary_dim() / 2, table.cos_row(position), table.sin_row(position));
}

}  // namespace pagoda::kernels
