// What the engine thread does to hand tokens on needs no memory. The whole binary counts its allocations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "service/tests/manual_executor.h"
#include "service/tests/service_fixture.h"

namespace {
thread_local int64_t num_allocations = 0;  // of this thread

// Not inlined, as the compiler would take the pair of operators for a mismatch of new and free.
[[gnu::noinline]] void* counted(size_t size, size_t alignment) {
  ++num_allocations;
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

namespace pagoda::service {
namespace {

// Takes tasks into memory that it has.
class LastTask final : public Executor {
 public:
  bool post(std::shared_ptr<Task> task) override {
    task_ = std::move(task);
    ++posts;
    return true;
  }
  void run() { std::exchange(task_, nullptr)->run(); }
  int64_t posts = 0;

 private:
  std::shared_ptr<Task> task_;
};

class ServiceAllocationTest : public ServiceTest {
 protected:
  // Allocations by the engine's thread in one step, and with them those of the scripted model.
  int64_t in_a_step() {
    const int64_t before = num_allocations;
    engine_->step();
    return num_allocations - before;
  }
};

TEST_F(ServiceAllocationTest, HandingOnATokenNeedsNoMemory) {
  build(script("a", {"x"}, true));
  // The engine alone, with a sink that does nothing.
  engine::EngineRequest bare;
  bare.id = RequestId{1u << 30};
  bare.prompt = {TokenId{8 + 'x'}};
  bare.max_tokens = 100;
  bare.sink = [](std::span<const engine::EngineEvent>) {};
  ASSERT_TRUE(engine_->submit(std::move(bare)));
  for (int i = 0; i < 40; ++i) engine_->step();
  int64_t bare_allocations = 0;
  for (int i = 0; i < 16; ++i) bare_allocations += in_a_step();
  engine_->abort(RequestId{1u << 30});
  engine_->step();

  const auto executor = std::make_shared<LastTask>();
  GenerationRequest wanted = request("script:a");
  wanted.max_tokens = 100;
  const auto received = start(wanted, executor);
  for (int i = 0; i < 40; ++i) {
    engine_->step();
    service_->flush();
    if (i > 0) executor->run();
  }
  int64_t with_service = 0;
  const int64_t posts = executor->posts;
  for (int i = 0; i < 16; ++i) {
    with_service += in_a_step();
    executor->run();
  }
  EXPECT_EQ(executor->posts, posts + 16);
  EXPECT_LE(with_service, bare_allocations);
}

}  // namespace
}  // namespace pagoda::service
