// Which lines of a batch can be requests.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "api/openai/batch_line.h"
#include "base/result.h"
#include "net/http_server.h"

namespace pagoda::http {

// A batch of more memory and time than this is better cut; OpenAI's limit.
inline constexpr int64_t kMaxBatchLines = 50000;
inline constexpr size_t kMaxBatchLineBytes = size_t{32} << 20;

// Whether batches can use this route of the server.
bool can_batch(const net::HttpServer& server, std::string_view url);

struct LineProblem {
  const char* code;
  Error error;
};

// Sees the lines of one batch in their order.
class LineCheck {
 public:
  // An empty `endpoint` allows every line its own. `server` must outlive the object.
  LineCheck(const net::HttpServer& server, std::string endpoint)
      : server_(server), endpoint_(std::move(endpoint)) {}

  std::optional<LineProblem> check(const openai::BatchLine& line);

 private:
  const net::HttpServer& server_;
  const std::string endpoint_;
  std::unordered_set<std::string> seen_;  // custom_ids
};

}  // namespace pagoda::http
