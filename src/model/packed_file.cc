#include "model/packed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/mmap_file.h"

namespace pagoda::model {
namespace {

Error io_error(const std::string& path, const char* what) {
  return make_error(ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

uint64_t mix(uint64_t value) {
  value = (value ^ value >> 32) * 0xd6e8feb86659fd93;
  return value ^ value >> 29;
}

Result<void> write_all(int fd, std::span<const uint8_t> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), size_t{64} << 20));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> write_pieces(int fd, const std::vector<std::span<const uint8_t>>& pieces,
                          const std::string& path) {
  size_t total = 0;
  for (const auto& piece : pieces) total += piece.size();
  if (::ftruncate(fd, 0) != 0) return io_error(path, "truncate");
  // A full disk shows here, before minutes of writing; file systems that can't reserve are written to anyway.
  if (::fallocate(fd, 0, 0, static_cast<off_t>(total)) != 0 && (errno == ENOSPC || errno == EFBIG)) {
    return io_error(path, "reserve the space of");
  }
  for (const auto& piece : pieces) PAGODA_TRY(write_all(fd, piece, path));
  if (::fsync(fd) != 0) return io_error(path, "write");
  return {};
}

bool same_file(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

}  // namespace

uint64_t hash_bytes(std::span<const uint8_t> bytes, uint64_t seed) {
  uint64_t lanes[4] = {seed ^ 0x9e3779b97f4a7c15, seed + 0xbf58476d1ce4e5b9, ~seed, seed ^ bytes.size()};
  size_t at = 0;
  for (; at + sizeof(lanes) <= bytes.size(); at += sizeof(lanes)) {
    uint64_t words[4];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (int i = 0; i < 4; ++i) lanes[i] = mix(lanes[i] ^ words[i]);
  }
  uint64_t tail[4] = {};
  if (at < bytes.size()) std::memcpy(tail, bytes.data() + at, bytes.size() - at);
  uint64_t hash = bytes.size();
  for (int i = 0; i < 4; ++i) hash = mix(hash ^ mix(lanes[i] ^ tail[i]));
  return hash;
}

uint64_t hash_pieces(std::span<const uint8_t> bytes, ComputePool& pool) {
  constexpr size_t kPiece = size_t{4} << 20;
  std::vector<uint64_t> hashes((bytes.size() + kPiece - 1) / kPiece);
  pool.run(static_cast<int>(hashes.size()), [&](int piece, int) {
    const size_t at = static_cast<size_t>(piece) * kPiece;
    hashes[static_cast<size_t>(piece)] =
        hash_bytes(bytes.subspan(at, std::min(kPiece, bytes.size() - at)), 0);
  });
  return hash_bytes({reinterpret_cast<const uint8_t*>(hashes.data()), hashes.size() * sizeof(uint64_t)}, 0);
}

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (file.fd_ < 0) return io_error(path, "open");
  if (::fstat(file.fd_, &info) != 0) return io_error(path, "stat");
  if (!S_ISREG(info.st_mode))
    return make_error(ErrorKind::kIo, fmt::format("{} is not a regular file", path));
  file.size_ = static_cast<uint64_t>(info.st_size);
  file.modified_ns_ = pagoda::modified_ns(info);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      modified_ns_(other.modified_ns_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> InputFile::read(uint64_t offset, std::span<uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path_, "read");
    if (got == 0) return make_error(ErrorKind::kIo, fmt::format("{} ends at byte {}", path_, offset));
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<void> InputFile::read(uint64_t offset, std::span<uint8_t> out, ComputePool& pool) const {
  // Of the size of a huge page, so that no two threads wait for the same one.
  constexpr size_t kPiece = size_t{2} << 20;
  const size_t pieces = (out.size() + kPiece - 1) / kPiece;
  std::vector<std::optional<Error>> errors(static_cast<size_t>(pool.num_threads()));
  pool.run(static_cast<int>(pieces), [&](int piece, int worker) {
    const size_t at = static_cast<size_t>(piece) * kPiece;
    auto done = read(offset + at, out.subspan(at, std::min(kPiece, out.size() - at)));
    if (!done) errors[static_cast<size_t>(worker)] = std::move(done).error();
  });
  for (auto& error : errors) {
    if (error) return std::move(*error);
  }
  return {};
}

Result<uint64_t> hash_file_samples(const ModelFile& file) {
  const InputFile input = PAGODA_TRY(InputFile::open(file.path));
  if (input.size() != file.bytes || input.modified_ns() != file.modified_ns) {
    return make_error(ErrorKind::kIo, fmt::format("{} has changed since it was opened", file.path));
  }
  constexpr uint64_t kHead = uint64_t{4} << 20, kSample = 4096, kSamples = 256;
  std::array<uint8_t, 1 << 16> buffer;
  uint64_t hash = file.bytes;
  const auto add = [&](uint64_t offset, uint64_t size) -> Result<void> {
    for (const uint64_t end = offset + size; offset < end;) {
      const auto bytes = std::span(buffer).first(std::min<uint64_t>(buffer.size(), end - offset));
      PAGODA_TRY(input.read(offset, bytes));
      hash = hash_bytes(bytes, hash);
      offset += bytes.size();
    }
    return {};
  };
  const uint64_t head = std::min(kHead, file.bytes), rest = file.bytes - head;
  PAGODA_TRY(add(0, head));
  if (rest <= kSample * kSamples) {
    PAGODA_TRY(add(head, rest));
    return hash;
  }
  for (uint64_t i = 0; i < kSamples; ++i) PAGODA_TRY(add(head + rest / kSamples * i, kSample));
  PAGODA_TRY(add(file.bytes - kSample, kSample));
  return hash;
}

Result<void> replace_file(const std::string& path, const std::vector<std::span<const uint8_t>>& pieces) {
  const std::string second = path + ".tmp";
  const Descriptor fd(::open(second.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (fd.get() < 0) return io_error(second, "create");
  // Another process may have renamed or removed the file between our open() and our lock: then the descriptor
  // is not of the second name any more, and must not be written to.
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || !same_file(fd.get(), second)) {
    return make_error(ErrorKind::kOverloaded, "another process is writing it");
  }
  auto written = write_pieces(fd.get(), pieces, second);
  if (written && ::rename(second.c_str(), path.c_str()) != 0) {
    written = make_error(ErrorKind::kIo,
                         fmt::format("cannot rename {} to {}: {}", second, path, std::strerror(errno)));
  }
  if (!written) ::unlink(second.c_str());
  return written;
}

}  // namespace pagoda::model
