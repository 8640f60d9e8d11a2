// Files that a server keeps: written whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/listen_socket.h"

namespace pagoda::http {

// The code of an Error that a full disk, a quota or a limit on the size of files caused.
inline constexpr const char* kStorageFull = "insufficient_storage";

// kIo with the reason that errno gives. The path goes into the log only: it is nothing for clients.
Error disk_error(std::string_view what, const std::string& path);

// Through a file beside it (`path` + kPartSuffix), which takes the name once its bytes are on the disk.
inline constexpr const char* kPartSuffix = ".part";
Result<void> write_file(const std::string& path, std::string_view content);

Result<std::string> read_file(const std::string& path);
Result<net::UniqueFd> open_for_reading(const std::string& path);

// Gives a finished file another name, for good.
Result<void> move_file(const std::string& from, const std::string& to);

}  // namespace pagoda::http
