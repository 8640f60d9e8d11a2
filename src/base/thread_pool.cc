#include "base/thread_pool.h"

#include <immintrin.h>

#include <chrono>

#include "base/check.h"

namespace pagoda {
namespace {

// About the length of one chunk (50-100 us); longer would burn the CPU of a busy neighbour, shorter would pay
// a futex wake-up between the operations of one step.
constexpr auto kSpinTime = std::chrono::microseconds(50);

// The next-chunk half of a ticket whose job is being replaced: above every chunk count.
constexpr uint32_t kClosed = 0xffffffff;

// Spins until `ready` holds or kSpinTime passed; true if it holds.
template <class Ready>
bool spin_until(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

}  // namespace

ComputePool::ComputePool(int num_threads) {
  PAGODA_CHECK(num_threads >= 1, "num_threads is {}", num_threads);
  for (int worker = 1; worker < num_threads; ++worker)
    workers_.emplace_back([this, worker] { worker_loop(worker); });
}

ComputePool::~ComputePool() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (auto& thread : workers_) thread.join();
}

void ComputePool::run(int num_chunks, FunctionRef<void(int, int)> body) noexcept {
  if (num_chunks <= 0) return;
  if (num_chunks == 1 || workers_.empty()) {
    for (int chunk = 0; chunk < num_chunks; ++chunk) body(chunk, 0);
    return;
  }
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // Close the old ticket first: a late worker that read it, and then this job's body, must fail its exchange.
  ticket_.store(uint64_t{generation} << 32 | kClosed, std::memory_order_relaxed);
  body_.store(&body, std::memory_order_release);
  num_chunks_.store(num_chunks, std::memory_order_release);
  chunks_done_.store(0, std::memory_order_relaxed);
  ticket_.store(uint64_t{generation} << 32, std::memory_order_release);
  generation_.store(generation, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) > 0) generation_.notify_all();
  take_chunks(generation, 0);
  // All chunks are taken; a worker may still be inside its last one.
  const auto done = [&] { return chunks_done_.load(std::memory_order_acquire) == num_chunks; };
  while (!spin_until(done)) std::this_thread::yield();
}

void ComputePool::take_chunks(uint32_t generation, int worker) noexcept {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  for (;;) {
    if (static_cast<uint32_t>(ticket >> 32) != generation) return;
    // May already belong to the next job; then the exchange below fails, because run() closed our ticket
    // before.
    const int num_chunks = num_chunks_.load(std::memory_order_acquire);
    const auto* body = body_.load(std::memory_order_acquire);
    const auto next = static_cast<uint32_t>(ticket);
    if (next >= static_cast<uint32_t>(num_chunks)) return;
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    (*body)(static_cast<int>(next), worker);
    chunks_done_.fetch_add(1, std::memory_order_release);
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ComputePool::worker_loop(int worker) {
  uint32_t seen = 0;
  for (;;) {
    const auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(changed)) {
      parked_.fetch_add(1, std::memory_order_seq_cst);
      generation_.wait(seen, std::memory_order_seq_cst);
      parked_.fetch_sub(1, std::memory_order_seq_cst);
    }
    // In this order: who sees the destructor's generation sees the end, too. The other way round a worker
    // that slept through the last job could take that generation for a job and wait for the next one.
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    take_chunks(seen, worker);
  }
}

}  // namespace pagoda
