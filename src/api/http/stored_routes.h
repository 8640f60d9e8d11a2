// What the routes of files and of batches have in common.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/api_state.h"
#include "api/http/batch_service.h"
#include "api/http/query.h"
#include "api/openai/batch_objects.h"
#include "base/result.h"
#include "net/http_types.h"

namespace pagoda::http {

struct StoredCall {
  ApiState& state;
  BatchService& batches;
  const net::HttpRequest& request;
  const std::shared_ptr<net::ResponseWriter>& response;

  // The segment of the path between these.
  std::string id(std::string_view prefix, std::string_view suffix = "") const {
    const std::string_view path = request.path;
    return std::string(path.substr(prefix.size(), path.size() - prefix.size() - suffix.size()));
  }
};

// A handler that works on the thread for files. Without `batches` it answers 501 naming the flag. As with
// on_text_pool(), an error of `work` becomes the answer and success means that it has answered.
using StoredWork = Result<void> (*)(const StoredCall& call);
net::Handler on_file_thread(std::shared_ptr<ApiState> state, std::shared_ptr<BatchService> batches,
                            StoredWork work);

// Fields of a body that this server doesn't know, as a header.
net::Headers unknown_field_headers(const net::HttpRequest& request, const std::vector<std::string>& names);

struct PageLimits {
  const char* id_prefix;
  int64_t max, fallback;
};

// `items` is sorted by id. Reads after, limit and order of the query.
template <class T, class Render>
Result<openai::ListPage> page_of(std::vector<T> items, const Query& query, const PageLimits& limits,
                                 Render render) {
  const std::string order = query.text("order").value_or("desc");
  if (order != "asc" && order != "desc") {
    return make_error(ErrorKind::kInvalidArgument, "order must be asc or desc.", "order");
  }
  const auto limit = static_cast<size_t>(PAGODA_TRY(query.integer("limit", 1, limits.max, limits.fallback)));
  const auto after = query.text("after");
  if (after && !after->starts_with(limits.id_prefix)) {
    return make_error(ErrorKind::kInvalidArgument, "after must be an id of an earlier page.", "after");
  }
  // Ids grow with time, so the one named need not be there any more.
  if (after) {
    std::erase_if(items,
                  [&](const T& item) { return order == "asc" ? item.id <= *after : item.id >= *after; });
  }
  if (order == "desc") std::reverse(items.begin(), items.end());
  openai::ListPage page;
  page.has_more = items.size() > limit;
  if (page.has_more) items.erase(items.begin() + static_cast<std::ptrdiff_t>(limit), items.end());
  for (const T& item : items) page.items.push_back(render(item));
  if (!items.empty()) {
    page.first_id = items.front().id;
    page.last_id = items.back().id;
  }
  return page;
}

void register_file_routes(const std::shared_ptr<ApiState>& state,
                          const std::shared_ptr<BatchService>& batches, net::HttpServer& server);
void register_batch_routes(const std::shared_ptr<ApiState>& state,
                           const std::shared_ptr<BatchService>& batches, net::HttpServer& server);

}  // namespace pagoda::http
