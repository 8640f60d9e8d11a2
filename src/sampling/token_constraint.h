// What restricts the tokens of one output, decided anew for each token: a grammar, seen from the sampler.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/result.h"

namespace pagoda::sampling {

// The state of one output. It advances with each token that is drawn and never goes back. Used by one thread
// at a time; after an error not at all.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Bit i of word i / 32: id i may come next. At least one may. End tokens may where the output may end.
  virtual Result<void> fill_mask(std::span<uint32_t> words) = 0;
  // The token, one of the mask, was drawn. True when the output is complete and nothing can follow.
  virtual Result<bool> accept(TokenId token) = 0;
};

// Words of a mask over so many ids.
inline constexpr size_t mask_words(size_t num_ids) {
  return (num_ids + 31) / 32;
}

}  // namespace pagoda::sampling
