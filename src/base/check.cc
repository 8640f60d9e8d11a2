#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pagoda::internal {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  // stderr directly: the logger may be what is broken.
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition, detail.empty() ? "" : ": ",
               detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace pagoda::internal
