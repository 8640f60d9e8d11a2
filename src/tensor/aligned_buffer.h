// Anonymous memory for weights, KV blocks and scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace pagoda {

// Owns zero-filled memory aligned to 2 MiB when it is at least that large (and then advised to use huge
// pages: +12 % decode speed in ik_llama.cpp PR 278), to 64 bytes otherwise. Move-only. size 0 is a null
// buffer. The constructor throws std::bad_alloc (start-up only; the step loop allocates nothing).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer();

  uint8_t* data() noexcept { return data_; }
  const uint8_t* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  // Takes bytes [begin, begin + size) from the system without changing them; other threads may use the memory
  // meanwhile. False where the kernel can't (before Linux 5.14).
  bool populate(size_t begin, size_t size) noexcept;
  template <class T>
  T* as() noexcept {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const noexcept {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_size_ = 0;
};

// The bytes of `buffer` with shared ownership: they are freed with the last pointer to them or into them.
std::shared_ptr<uint8_t> share_buffer(AlignedBuffer buffer);

}  // namespace pagoda
