#include "net/router.h"

#include "base/check.h"

namespace pagoda::net {

TargetParts split_target(std::string_view target) {
  if (!target.starts_with('/')) {
    if (const size_t scheme_end = target.find("://"); scheme_end != std::string_view::npos) {
      const size_t path_start = target.find_first_of("/?", scheme_end + 3);
      target = path_start == std::string_view::npos ? std::string_view("/") : target.substr(path_start);
    }
  }
  const size_t mark = target.find('?');
  if (mark == std::string_view::npos) return {target, {}};
  // "http://host?x" has an empty path, which means "/".
  return {mark == 0 ? std::string_view("/") : target.substr(0, mark), target.substr(mark + 1)};
}

bool Router::Route::matches(std::string_view path) const {
  if (prefix.empty()) return path == pattern;
  if (path.size() <= prefix.size() + suffix.size()) return false;
  if (!path.starts_with(prefix) || !path.ends_with(suffix)) return false;
  const std::string_view segment = path.substr(prefix.size(), path.size() - prefix.size() - suffix.size());
  return segment.find('/') == std::string_view::npos;
}

const Handler* Router::Route::handler_of(std::string_view method) const {
  for (const auto& [name, handler] : handlers) {
    if (name == method) return &handler;
  }
  return method == "HEAD" ? handler_of("GET") : nullptr;
}

std::string Router::Route::allow() const {
  std::string methods;
  for (const auto& [name, handler] : handlers) methods += name + ", ";
  const auto has = [&](std::string_view method) {
    for (const auto& [name, handler] : handlers) {
      if (name == method) return true;
    }
    return false;
  };
  if (has("GET") && !has("HEAD")) methods += "HEAD, ";
  return methods + "OPTIONS";
}

void Router::add(std::string method, std::string pattern, Handler handler) {
  PAGODA_CHECK(pattern.starts_with('/') && handler, "route {} {}", method, pattern);
  for (Route& route : routes_) {
    if (route.pattern != pattern) continue;
    for (const auto& [name, known] : route.handlers) {
      PAGODA_CHECK(name != method, "{} {} has two handlers", method, pattern);
    }
    route.handlers.emplace_back(std::move(method), std::move(handler));
    return;
  }
  Route route;
  const size_t open = pattern.find("/{"), close = pattern.find('}');
  if (open != std::string::npos) {
    PAGODA_CHECK(close != std::string::npos, "route {}", pattern);
    route.prefix = pattern.substr(0, open + 1);
    route.suffix = pattern.substr(close + 1);
  }
  route.pattern = std::move(pattern);
  route.handlers.emplace_back(std::move(method), std::move(handler));
  routes_.push_back(std::move(route));
}

const Router::Route* Router::route_of(std::string_view path) const {
  const Route* with_segment = nullptr;
  for (const Route& route : routes_) {
    if (!route.matches(path)) continue;
    if (route.prefix.empty()) return &route;
    if (with_segment == nullptr) with_segment = &route;
  }
  return with_segment;
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  const Route* route = route_of(path);
  if (route == nullptr) return {};
  return {route->handler_of(method), route->pattern, route->allow()};
}

}  // namespace pagoda::net
