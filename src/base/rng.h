// Counter-based random numbers: a draw is a pure function of (seed, stream, counter), so that sampling is the
// same whatever shares the batch and after any preemption. Source: Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3", Philox4x32-10.
#pragma once

#include <array>
#include <cstdint>

namespace pagoda {

// Four independent 32-bit words for a 128-bit counter under a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, uint64_t key) noexcept;

// Uniform in (0, 1), 53 bits: a draw for position `counter` of stream `stream` (for example the choice
// index).
double uniform01(uint64_t seed, uint32_t stream, uint64_t counter) noexcept;

// A seed from the operating system's entropy.
uint64_t random_seed();

}  // namespace pagoda
