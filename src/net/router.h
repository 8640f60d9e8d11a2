// Which handler answers a method and a path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http_types.h"

namespace pagoda::net {

// A request target without its scheme and authority (absolute form), cut at the '?'. Views into the target.
struct TargetParts {
  std::string_view path, query;
};
TargetParts split_target(std::string_view target);

// Filled before the server starts, read by all I/O threads afterwards. Paths are compared byte by byte,
// without any decoding or clean-up: one resource has one spelling, so that no check in front of it can be
// walked around.
class Router {
 public:
  // `pattern` is exact, or has one segment "/{name}", which stands for any that is not empty. An exact
  // pattern wins over such a one.
  void add(std::string method, std::string pattern, Handler handler);

  struct Match {
    const Handler* handler = nullptr;  // null: the path is unknown, or known with other methods
    std::string_view pattern;          // empty: the path is unknown
    std::string allow;                 // the methods of the path for Allow, "GET, HEAD, OPTIONS"
  };
  // HEAD finds the handler of GET where it has none of its own.
  Match find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string pattern;
    std::string prefix;  // of a pattern with a segment to match: all up to its '{'; else empty
    std::string suffix;  // and all behind its '}'
    std::vector<std::pair<std::string, Handler>> handlers;

    bool matches(std::string_view path) const;
    const Handler* handler_of(std::string_view method) const;
    std::string allow() const;
  };
  const Route* route_of(std::string_view path) const;

  std::vector<Route> routes_;
};

}  // namespace pagoda::net
