// The steady state of the engine thread allocates nothing and hardly locks. The whole binary counts its
// allocations and locks.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

#include "engine/tests/engine_fixture.h"

namespace {
std::atomic<int64_t> num_allocations{0}, num_locks{0};

// Not inlined, as the compiler would take the pair of operators for a mismatch of new and free.
[[gnu::noinline]] void* counted(size_t size, size_t alignment) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                     ? std::malloc(size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

[[gnu::noinline]] void release(void* memory) noexcept {
  std::free(memory);
}
}  // namespace

void* operator new(size_t size) {
  return counted(size, 1);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  release(memory);
}

// ThreadSanitizer brings its own.
#ifndef __SANITIZE_THREAD__
#define PAGODA_COUNTS_LOCKS 1
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  num_locks.fetch_add(1, std::memory_order_relaxed);
  return real(mutex);
}
#endif

namespace pagoda::engine {
namespace {

constexpr int64_t kVocab = 3000;  // large enough for every path of the sampler

// Sixteen sequences that decode, each with other sampling parameters.
class AllocationTest : public ::testing::Test {
 protected:
  AllocationTest() {
    options_.max_num_seqs = 16;
    options_.itl_target_ms = 50;
    observer_.on_inter_token = [this](double) { ++tokens_seen_; };
    observer_.on_step = [this](int64_t, double) { ++steps_seen_; };
  }

  static sampling::SamplingParams params_of(int i) {
    sampling::SamplingParams p;
    p.temperature = i % 4 == 0 ? 0.0f : 0.5f + 0.1f * static_cast<float>(i);
    p.seed = static_cast<uint64_t>(i);
    if (i % 3 == 0) p.top_k = 40;
    if (i % 3 == 1) p.top_p = 0.9f;
    if (i % 5 == 0) p.min_p = 0.1f;
    if (i % 6 == 0) p.repetition_penalty = 1.1f;
    if (i % 7 == 0) p.frequency_penalty = 0.2f;
    if (i % 8 == 0) p.min_tokens = 1000;
    if (i % 8 == 0) p.stop_token_ids = {{1}, {2}};
    return p;
  }

  void submit(Engine& engine, int i) {
    EngineRequest r;
    r.id = {static_cast<uint64_t>(i) + 1};
    r.prompt = random_prompt(20 + 7 * i, static_cast<uint32_t>(i));
    r.max_tokens = 300;
    r.sampling = params_of(i);
    r.sink = [this](std::span<const EngineEvent> events) { events_seen_ += std::ssize(events); };
    if (i % 2 == 0) r.deadline = clock_.now() + std::chrono::hours(1);
    ASSERT_TRUE(engine.submit(std::move(r)).has_value());
  }

  EngineOptions options_ = test_options(1000);
  FakeModel model_{kVocab};
  ManualClock clock_;
  EngineObserver observer_;
  int64_t events_seen_ = 0, tokens_seen_ = 0, steps_seen_ = 0;
};

TEST_F(AllocationTest, AHundredDecodeStepsOfSixteenSequencesAllocateNothing) {
  // One thread: which worker of several meets which row first is chance, and each has its own scratch.
  ComputePool pool(1);
  Engine engine(model_, KvStorage(model_.kv_shape(), options_.num_blocks), options_, pool, clock_, observer_);
  for (int i = 0; i < 16; ++i) submit(engine, i);
  for (int i = 0; i < 100; ++i) engine.step();  // until all decode
  ASSERT_EQ(engine.stats().running, 16);
  events_seen_ = tokens_seen_ = steps_seen_ = 0;
  const int64_t allocations = num_allocations.load();
  [[maybe_unused]] const int64_t locks = num_locks.load();
  for (int i = 0; i < 100; ++i) engine.step();
  EXPECT_EQ(num_allocations.load() - allocations, 0);
  EXPECT_EQ(events_seen_, 1600);
  EXPECT_EQ(tokens_seen_, 1600);
  EXPECT_EQ(steps_seen_, 100);
#ifdef PAGODA_COUNTS_LOCKS
  EXPECT_EQ(num_locks.load() - locks, 100) << "a step hands its snapshot over and locks for nothing else";
#endif
  engine.stop();
}

TEST_F(AllocationTest, DecodeStepsWithDraftsAllocateNothing) {
  ComputePool pool(1);
  FakeModel model(kVocab, FakeText::kRepeating);
  options_.speculation = {.num_tokens = 16, .min_match = 2, .max_match = 8};
  Engine engine(model, KvStorage(model.kv_shape(), options_.num_blocks), options_, pool, clock_, observer_);
  for (const int i : {0, 1, 5}) submit(engine, i);
  while (engine.stats().accepted_tokens < 50) ASSERT_TRUE(engine.step());
  ASSERT_EQ(engine.stats().running, 3);
  events_seen_ = 0;
  const EngineStats before = engine.stats();
  const int64_t allocations = num_allocations.load();
  [[maybe_unused]] const int64_t locks = num_locks.load();
  for (int i = 0; i < 30; ++i) engine.step();
  EXPECT_EQ(num_allocations.load() - allocations, 0);
#ifdef PAGODA_COUNTS_LOCKS
  EXPECT_EQ(num_locks.load() - locks, 30);
#endif
  const EngineStats after = engine.stats();
  ASSERT_EQ(after.running, 3) << "all must decode to the end of the count";
  const auto accepted = static_cast<int64_t>(after.accepted_tokens - before.accepted_tokens);
  EXPECT_GT(accepted, 30);
  EXPECT_GT(after.draft_tokens - before.draft_tokens, static_cast<uint64_t>(accepted)) << "some are rejected";
  EXPECT_EQ(events_seen_, 3 * 30 + accepted);
  engine.stop();
}

TEST_F(AllocationTest, TheCountersCount) {
  const int64_t allocations = num_allocations.load();
  [[maybe_unused]] const int64_t locks = num_locks.load();
  const auto owned = std::make_unique<std::mutex>();
  owned->lock();
  owned->unlock();
  EXPECT_EQ(num_allocations.load() - allocations, 1);
#ifdef PAGODA_COUNTS_LOCKS
  EXPECT_EQ(num_locks.load() - locks, 1);
#endif
}

}  // namespace
}  // namespace pagoda::engine
