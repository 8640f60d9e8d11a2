// Raw log-probabilities of one row.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/logits.h"
#include "sampling/sampler.h"

namespace pagoda::sampling {

// score_token() with scratch memory that is kept between rows. Not thread-safe.
class TokenScorer {
 public:
  // Allocates nothing but the list of the best tokens, once it has seen such a row and k.
  SampledToken score(std::span<const float> logits, TokenId token, int k);

 private:
  SampledToken score_finite(const kernels::ScannedRow& scanned, TokenId token, size_t k);

  std::vector<float> maxima_, cleaned_, values_;
  std::vector<int32_t> ids_;
};

}  // namespace pagoda::sampling
