#include "api/http/disk_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"

namespace pagoda::http {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

bool means_full(int number) {
  return number == ENOSPC || number == EDQUOT || number == EFBIG;
}

// So that a rename outlives a power failure.
Result<void> sync_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const net::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) return disk_error("The folder can't be written", folder);
  return {};
}

Result<void> write_all(const std::string& path, std::string_view content) {
  const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fd.get() < 0) return disk_error("The file can't be written", path);
  while (!content.empty()) {
    const ssize_t count = ::write(fd.get(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return disk_error("The file can't be written", path);
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (fsync(fd.get()) != 0) return disk_error("The file can't be written", path);
  return {};
}

}  // namespace

Error disk_error(std::string_view what, const std::string& path) {
  const int number = errno;
  log::error("{}: {}: {}", path, what, std::strerror(number));
  return make_error(ErrorKind::kIo, fmt::format("{}: {}.", what, std::strerror(number)), "",
                    means_full(number) ? kStorageFull : "");
}

Result<void> write_file(const std::string& path, std::string_view content) {
  const std::string part = path + kPartSuffix;
  if (auto written = write_all(part, content); !written) {
    ::unlink(part.c_str());
    return written;
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    const Error error = disk_error("The file can't be written", path);
    ::unlink(part.c_str());
    return error;
  }
  return sync_folder(path);
}

Result<net::UniqueFd> open_for_reading(const std::string& path) {
  net::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return disk_error("The file can't be read", path);
  return fd;
}

Result<std::string> read_file(const std::string& path) {
  const net::UniqueFd fd = PAGODA_TRY(open_for_reading(path));
  std::string text;
  for (;;) {
    const size_t old = text.size();
    text.resize(old + kReadBytes);
    const ssize_t count = ::read(fd.get(), text.data() + old, kReadBytes);
    if (count < 0 && errno != EINTR) return disk_error("The file can't be read", path);
    text.resize(old + (count > 0 ? static_cast<size_t>(count) : 0));
    if (count == 0) return text;
  }
}

Result<void> move_file(const std::string& from, const std::string& to) {
  const net::UniqueFd fd = PAGODA_TRY(open_for_reading(from));
  if (fsync(fd.get()) != 0) return disk_error("The file can't be written", from);
  if (std::rename(from.c_str(), to.c_str()) != 0) return disk_error("The file can't be written", to);
  return sync_folder(to);
}

}  // namespace pagoda::http
