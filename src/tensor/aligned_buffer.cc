#include "tensor/aligned_buffer.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace pagoda {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  // mmap aligns to 4 KiB; over-allocate so that a 2 MiB boundary lies inside.
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  mapping_size_ = bytes + slack;
  mapping_ = mmap(nullptr, mapping_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  auto address = reinterpret_cast<uintptr_t>(mapping_);
  if (slack != 0) {
    address = (address + kHugePage - 1) & ~(kHugePage - 1);
    madvise(reinterpret_cast<void*>(address), bytes, MADV_HUGEPAGE);  // best effort
  }
  data_ = reinterpret_cast<uint8_t*>(address);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_size_(std::exchange(other.mapping_size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_size_, other.mapping_size_);
  return *this;
}

bool AlignedBuffer::populate(size_t begin, size_t size) noexcept {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, absent from older headers
  constexpr size_t kPage = 4096;
  const auto first = reinterpret_cast<uintptr_t>(data_ + begin) / kPage * kPage;
  const auto end = reinterpret_cast<uintptr_t>(data_ + begin + size);
  return madvise(reinterpret_cast<void*>(first), end - first, kPopulateWrite) == 0;
}

AlignedBuffer::~AlignedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_size_);
}

std::shared_ptr<uint8_t> share_buffer(AlignedBuffer buffer) {
  const auto owner = std::make_shared<AlignedBuffer>(std::move(buffer));
  return {owner, owner->data()};
}

}  // namespace pagoda
