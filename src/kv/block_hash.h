// Keys of the prefix cache: a keyed 128-bit hash chained over blocks.
// Source: Aumasson and Bernstein 2012, "SipHash: a fast short-input PRF", with the 128-bit output of its
// reference code.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"

namespace pagoda::kv {

struct BlockKey {
  uint64_t lo = 0, hi = 0;
  friend constexpr auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

// SipHash-2-4 with a 128-bit result; `secret` is the 128-bit key.
BlockKey siphash128(std::span<const uint8_t> bytes, BlockKey secret) noexcept;

// Names prompts so that nobody without the secret can guess which two share a key.
class BlockHasher {
 public:
  // `bits` below 128 cuts the keys, so that tests meet collisions all the time.
  explicit BlockHasher(BlockKey secret, int bits = 128);

  // The key before the first block. Equal salts give equal roots.
  BlockKey root(std::string_view salt) const;
  // The key of a block of kKvBlockTokens tokens after the block named `parent`.
  BlockKey chain(BlockKey parent, std::span<const TokenId> tokens) const noexcept;

 private:
  BlockKey cut(BlockKey key) const noexcept { return {key.lo & mask_.lo, key.hi & mask_.hi}; }

  BlockKey secret_;
  BlockKey mask_;
};

}  // namespace pagoda::kv
