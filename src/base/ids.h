// Integer ids that cannot be mixed up. Plain aggregates with the layout of their integer.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace pagoda {

// A vocabulary entry: 0 <= value < vocab_size once validated.
struct TokenId {
  int32_t value = -1;
  friend constexpr auto operator<=>(TokenId, TokenId) = default;
};

// A block of the KV pool: 0 <= value < number of blocks; -1 means none.
struct BlockId {
  int32_t value = -1;
  friend constexpr auto operator<=>(BlockId, BlockId) = default;
};

// One client request inside the engine, unique for the life of the process.
struct RequestId {
  uint64_t value = 0;
  friend constexpr auto operator<=>(RequestId, RequestId) = default;
};

}  // namespace pagoda

template <>
struct std::hash<pagoda::TokenId> {
  size_t operator()(pagoda::TokenId id) const noexcept { return std::hash<int32_t>{}(id.value); }
};
template <>
struct std::hash<pagoda::BlockId> {
  size_t operator()(pagoda::BlockId id) const noexcept { return std::hash<int32_t>{}(id.value); }
};
template <>
struct std::hash<pagoda::RequestId> {
  size_t operator()(pagoda::RequestId id) const noexcept { return std::hash<uint64_t>{}(id.value); }
};
