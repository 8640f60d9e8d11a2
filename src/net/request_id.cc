#include "net/request_id.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"
#include "net/ascii.h"

namespace pagoda::net {

namespace {
// Room for every id scheme in use (UUIDs, W3C trace ids, nested proxy ids), short enough for a log line.
constexpr size_t kMaxIdLength = 128;
}  // namespace

std::string choose_request_id(std::string_view from_client) {
  const bool usable = !from_client.empty() && from_client.size() <= kMaxIdLength &&
                      std::all_of(from_client.begin(), from_client.end(), is_visible);
  if (usable) return std::string(from_client);
  return fmt::format("{:016x}{:016x}", random_seed(), random_seed());
}

}  // namespace pagoda::net
