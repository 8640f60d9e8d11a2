// The fixed pool of compute threads that runs every kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace pagoda {

// Work is cut into chunks taken from an atomic counter and joined on chunks done, not on threads arrived: a
// worker that the operating system put to sleep holds back one chunk, and the caller does the rest. Workers
// spin briefly (50 us: about one chunk) before they park on a futex, so that an idle server costs nothing.
class ComputePool {
 public:
  // `num_threads` >= 1 counts the caller of run() as worker 0, so num_threads - 1 threads are started.
  explicit ComputePool(int num_threads);
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  int num_threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(chunk, worker) once for every chunk in [0, num_chunks), from any worker, in any order; returns
  // when all are done. 0 <= worker < num_threads(): index for scratch memory. One caller at a time; not
  // reentrant; body must not throw. Everything written before run() is visible in body, and everything body
  // wrote after run() returns.
  void run(int num_chunks, FunctionRef<void(int chunk, int worker)> body) noexcept;

 private:
  void worker_loop(int worker);
  void take_chunks(uint32_t generation, int worker) noexcept;

  // The low 32 bits of `ticket_` are the next chunk, the high 32 the job's generation: a late worker can't
  // take a chunk of a job that it has not read.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> chunks_done_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  std::atomic<const FunctionRef<void(int, int)>*> body_{nullptr};
  std::atomic<int> num_chunks_{0};
  std::vector<std::thread> workers_;
};

// Splits [0, count) into num_chunks nearly equal ranges; range `chunk` is [begin, end).
struct ChunkRange {
  int64_t begin, end;
};
inline ChunkRange chunk_range(int64_t count, int num_chunks, int chunk) {
  return {count * chunk / num_chunks, count * (chunk + 1) / num_chunks};
}

}  // namespace pagoda
