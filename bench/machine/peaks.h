// What this machine can do at most, measured: the yardstick of every benchmark here.
#pragma once

#include <cstdint>
#include <string>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::bench {

// Operations per second of one tier's dot products when everything lies in registers. A multiplication and
// an addition count as two operations.
//   int8  avx512: vpdpbusd on zmm; avx2: vpmaddubsw and one vpaddw each (no VNNI in that tier); scalar: 0
//   bf16  avx512: vdpbf16ps; other tiers widen to float, so their peak is that of f32
//   f32   fused multiply-add
struct ComputePeaks {
  double int8 = 0, bf16 = 0, f32 = 0;
};

// Bytes per second. `best` of the readings and their median: a virtual machine shares its memory with
// others.
struct Bandwidth {
  double best = 0, median = 0;
};

struct MachinePeaks {
  int threads = 1;
  ComputePeaks compute;  // all threads together
  Bandwidth memory;      // reading far more than the last-level cache holds, from huge pages
  double l2 = 0;         // reading 256 KiB per thread again and again; best
};

// Reads memory on all threads of a pool. Holds its buffer (several times the last-level cache) for its
// lifetime, so that a benchmark can read between its own measurements.
class MemoryReader {
 public:
  MemoryReader();
  // One pass over the buffer; bytes per second.
  double read(ComputePool& pool) const;
  // `passes` passes.
  Bandwidth measure(ComputePool& pool, int passes) const;
  size_t bytes() const noexcept { return buffer_.size(); }

 private:
  AlignedBuffer buffer_;
};

ComputePeaks measure_compute(Isa isa, ComputePool& pool);
MachinePeaks measure_peaks(Isa isa, ComputePool& pool, const MemoryReader& reader);

// "avx512, 2 threads: 930 int8 GOPS, ..."
std::string describe(const MachinePeaks& peaks, Isa isa);

// Size of the last-level cache as the operating system tells it; 32 MiB where it does not.
size_t last_level_cache_bytes();

}  // namespace pagoda::bench
