#include "machine/peaks.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace pagoda::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A loop of dot products that touches no memory; returns its number of operations.
using ComputeLoop = double (*)(int64_t rounds);

// Makes the compiler believe that the value is used, and with it the loop that made it.
void keep(const void* value) {
  asm volatile("" : : "r"(value) : "memory");
}

// Twelve chains hide the latency of four to five cycles at up to two instructions a cycle.
constexpr int kChains = 12;

#define PAGODA_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16"), noinline))
#define PAGODA_AVX2 __attribute__((target("avx2,fma"), noinline))

PAGODA_AVX512 double int8_avx512(int64_t rounds) {
  __m512i sums[kChains], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, x, y);
    asm volatile("" : "+v"(x), "+v"(y));  // else equal iterations are multiplied out
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  keep(&sums[0]);
  return static_cast<double>(rounds) * kChains * 128;
}

PAGODA_AVX512 double bf16_avx512(int64_t rounds) {
  __m512 sums[kChains];
  __m512i x = _mm512_set1_epi32(0x3f803f80), y = x;  // 1.0
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
    asm volatile("" : "+v"(x), "+v"(y));
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  keep(&sums[0]);
  return static_cast<double>(rounds) * kChains * 64;
}

PAGODA_AVX512 double f32_avx512(int64_t rounds) {
  __m512 sums[kChains], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_fmadd_ps(x, y, sum);
    asm volatile("" : "+v"(x), "+v"(y));
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  keep(&sums[0]);
  return static_cast<double>(rounds) * kChains * 32;
}

PAGODA_AVX2 double int8_avx2(int64_t rounds) {
  __m256i sums[kChains], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5);
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, y));
      asm volatile("" : "+x"(x));  // one vpmaddubsw for each addition
    }
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_epi16(sums[0], sums[i]);
  keep(&sums[0]);
  return static_cast<double>(rounds) * kChains * 64;
}

PAGODA_AVX2 double f32_avx2(int64_t rounds) {
  __m256 sums[kChains], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
  for (auto& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm256_fmadd_ps(x, y, sum);
    asm volatile("" : "+x"(x), "+x"(y));
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  keep(&sums[0]);
  return static_cast<double>(rounds) * kChains * 16;
}

double f32_scalar(int64_t rounds) {
  float sums[kChains] = {}, x = 0.5f, y = 0.25f;
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) {
      sum += x * y;
      asm volatile("" : "+x"(x), "+x"(y));
    }
  }
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  keep(&sums[0]);
  return static_cast<double>(rounds) * kChains * 2;
}

// Four chains of loads. On Zen 4 prefetch distances from none to 8 KiB read equally fast within noise.
template <bool kPrefetch>
PAGODA_AVX2 void read_avx2(const uint8_t* begin, size_t bytes) {
  __m256i sums[4];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  const auto* p = reinterpret_cast<const char*>(begin);
  for (const char* end = p + bytes; p < end; p += 256) {
#pragma GCC unroll 4
    for (int line = 0; line < 4; ++line) {
      if (kPrefetch) _mm_prefetch(p + 4096 + line * 64, _MM_HINT_T0);
      const auto* words = reinterpret_cast<const __m256i*>(p + line * 64);
      sums[line] = _mm256_or_si256(sums[line], _mm256_load_si256(words));
      sums[line] = _mm256_or_si256(sums[line], _mm256_load_si256(words + 1));
    }
  }
  sums[0] = _mm256_or_si256(_mm256_or_si256(sums[0], sums[1]), _mm256_or_si256(sums[2], sums[3]));
  keep(&sums[0]);
}

void read_scalar(const uint8_t* begin, size_t bytes) {
  uint64_t any = 0;
  const auto* words = reinterpret_cast<const uint64_t*>(begin);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) any |= words[i];
  keep(&any);
}

void read_bytes(const uint8_t* begin, size_t bytes) {
  static const bool has_avx2 = detect_isa() >= Isa::kAvx2;
  has_avx2 ? read_avx2<true>(begin, bytes) : read_scalar(begin, bytes);
}

// From a cache prefetching only takes up the load units.
void read_cached_bytes(const uint8_t* begin, size_t bytes) {
  static const bool has_avx2 = detect_isa() >= Isa::kAvx2;
  has_avx2 ? read_avx2<false>(begin, bytes) : read_scalar(begin, bytes);
}

double thread_cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Operations per second of a loop on all threads at once; the best of several tries of about 20 ms. Each
// thread counts its own CPU time, so that a busy machine does not lower the peak.
double best_rate(ComputeLoop loop, ComputePool& pool) {
  constexpr int kTries = 8;
  int64_t rounds = 100'000;
  for (double seconds = 0; seconds < 0.02; rounds *= 2) {
    const double start = thread_cpu_seconds();
    loop(rounds);
    seconds = thread_cpu_seconds() - start;
  }
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    std::vector<double> rates(static_cast<size_t>(pool.num_threads()));
    pool.run(pool.num_threads(), [&](int chunk, int) {
      const double start = thread_cpu_seconds();
      const double operations = loop(rounds);
      rates[static_cast<size_t>(chunk)] = operations / (thread_cpu_seconds() - start);
    });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

// Bytes per second from the second-level cache: each thread reads 256 KiB of its own, a quarter of the
// smallest such cache of a server, many times.
double l2_rate(ComputePool& pool) {
  constexpr size_t kBytes = 256 << 10;
  constexpr int kPasses = 400;
  const AlignedBuffer buffer(kBytes * static_cast<size_t>(pool.num_threads()));
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    pool.run(pool.num_threads(), [&](int chunk, int) {
      const uint8_t* own = buffer.data() + kBytes * static_cast<size_t>(chunk);
      for (int pass = 0; pass < kPasses; ++pass) read_cached_bytes(own, kBytes);
    });
    const double bytes = static_cast<double>(kBytes) * kPasses * pool.num_threads();
    best = std::max(best, bytes / seconds_since(start));
  }
  return best;
}

}  // namespace

size_t last_level_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{32} << 20;
}

// At least eight times the last-level cache: what of it survives from the pass before is noise then.
MemoryReader::MemoryReader() : buffer_(std::max(size_t{256} << 20, 8 * last_level_cache_bytes())) {
  std::fill_n(buffer_.data(), buffer_.size(), uint8_t{1});  // else every page is the same zero page
}

double MemoryReader::read(ComputePool& pool) const {
  constexpr size_t kChunk = size_t{1} << 20;
  const size_t chunks = buffer_.size() / kChunk;
  const auto start = Clock::now();
  pool.run(static_cast<int>(chunks),
           [&](int chunk, int) { read_bytes(buffer_.data() + static_cast<size_t>(chunk) * kChunk, kChunk); });
  return static_cast<double>(chunks * kChunk) / seconds_since(start);
}

Bandwidth MemoryReader::measure(ComputePool& pool, int passes) const {
  std::vector<double> rates;
  for (int i = 0; i < passes; ++i) rates.push_back(read(pool));
  std::sort(rates.begin(), rates.end());
  return {rates.back(), rates[rates.size() / 2]};
}

ComputePeaks measure_compute(Isa isa, ComputePool& pool) {
  switch (isa) {
    case Isa::kAvx512:
      return {best_rate(int8_avx512, pool), best_rate(bf16_avx512, pool), best_rate(f32_avx512, pool)};
    case Isa::kAvx2: {
      const double f32 = best_rate(f32_avx2, pool);
      return {best_rate(int8_avx2, pool), f32, f32};
    }
    case Isa::kScalar:
      break;
  }
  const double f32 = best_rate(f32_scalar, pool);
  return {0, f32, f32};
}

MachinePeaks measure_peaks(Isa isa, ComputePool& pool, const MemoryReader& reader) {
  constexpr int kPasses = 30;
  MachinePeaks peaks;
  peaks.threads = pool.num_threads();
  peaks.compute = measure_compute(isa, pool);
  peaks.memory = reader.measure(pool, kPasses);
  peaks.l2 = l2_rate(pool);
  return peaks;
}

std::string describe(const MachinePeaks& peaks, Isa isa) {
  return fmt::format(
      "{}, {} thread{}: {:.0f} int8 GOPS, {:.0f} bf16 GFLOPS, {:.0f} f32 GFLOPS; memory {:.1f} GB/s (median "
      "{:.1f}), L2 {:.0f} GB/s",
      isa_name(isa), peaks.threads, peaks.threads == 1 ? "" : "s", peaks.compute.int8 * 1e-9,
      peaks.compute.bf16 * 1e-9, peaks.compute.f32 * 1e-9, peaks.memory.best * 1e-9,
      peaks.memory.median * 1e-9, peaks.l2 * 1e-9);
}

}  // namespace pagoda::bench
