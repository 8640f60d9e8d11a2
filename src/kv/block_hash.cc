#include "kv/block_hash.h"

#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"
#include "tensor/kv_storage.h"

namespace pagoda::kv {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() noexcept {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }

  void absorb(uint64_t word) noexcept {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }

  uint64_t squeeze() noexcept {
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

// First bytes of the two kinds of message, so that no salt can look like a block.
constexpr uint8_t kRootTag = 0, kBlockTag = 1;

}  // namespace

BlockKey siphash128(std::span<const uint8_t> bytes, BlockKey secret) noexcept {
  // The initial words spell "somepseudorandomlygeneratedbytes"; 0xee and 0xdd select the 128-bit variant.
  SipState state{secret.lo ^ 0x736f6d6570736575, secret.hi ^ 0x646f72616e646f6d ^ 0xee,
                 secret.lo ^ 0x6c7967656e657261, secret.hi ^ 0x7465646279746573};
  const size_t num_words = bytes.size() / 8;
  for (size_t i = 0; i < num_words; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i * 8, 8);
    state.absorb(word);
  }
  uint64_t last = uint64_t{bytes.size()} << 56;
  for (size_t i = num_words * 8; i < bytes.size(); ++i) last |= uint64_t{bytes[i]} << (8 * (i % 8));
  state.absorb(last);
  BlockKey key;
  state.v2 ^= 0xee;
  key.lo = state.squeeze();
  state.v1 ^= 0xdd;
  key.hi = state.squeeze();
  return key;
}

BlockHasher::BlockHasher(BlockKey secret, int bits) : secret_(secret) {
  PAGODA_CHECK(bits >= 0 && bits <= 128, "a hash of {} bits", bits);
  const auto low_bits = [](int count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; };
  mask_ = {low_bits(bits), bits > 64 ? low_bits(bits - 64) : 0};
}

BlockKey BlockHasher::root(std::string_view salt) const {
  std::string message(1, static_cast<char>(kRootTag));
  message += salt;
  return cut(siphash128({reinterpret_cast<const uint8_t*>(message.data()), message.size()}, secret_));
}

BlockKey BlockHasher::chain(BlockKey parent, std::span<const TokenId> tokens) const noexcept {
  constexpr size_t kTokenBytes = kKvBlockTokens * sizeof(TokenId);
  PAGODA_CHECK(tokens.size_bytes() == kTokenBytes, "{} tokens", tokens.size());
  uint8_t message[1 + sizeof(BlockKey) + kTokenBytes];
  message[0] = kBlockTag;
  std::memcpy(message + 1, &parent, sizeof(parent));
  std::memcpy(message + 1 + sizeof(parent), tokens.data(), kTokenBytes);
  return cut(siphash128(message, secret_));
}

}  // namespace pagoda::kv
