#include "quantize/writer/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace pagoda::quantize {
namespace {

Error system_error(std::string_view what, const std::string& path) {
  const int number = errno;
  return make_error(ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, path, std::strerror(number)));
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return system_error("create", temporary);
  return OutputFile(path, fd);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink((path_ + ".tmp").c_str());
}

Result<void> OutputFile::append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", path_);
    size_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> OutputFile::append(std::string_view text) {
  return append(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

Result<void> OutputFile::commit() {
  const std::string temporary = path_ + ".tmp";
  if (::fsync(fd_) != 0) return system_error("write", path_);
  // The system may tell only here that the disk is full.
  if (::close(std::exchange(fd_, -1)) != 0) {
    Error error = system_error("write", path_);
    ::unlink(temporary.c_str());
    return error;
  }
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) {
    Error error = system_error("rename", temporary);
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  OutputFile file = PAGODA_TRY(OutputFile::create(path));
  PAGODA_TRY(file.append(text));
  return file.commit();
}

Result<void> sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error("open", path);
  // Not every file system can; the files themselves are safe.
  ::fsync(fd);
  ::close(fd);
  return {};
}

}  // namespace pagoda::quantize
