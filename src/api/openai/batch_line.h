// The lines of a batch: requests in, answers out, one JSON object each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::openai {

// {"custom_id", "method": "POST", "url", "body"}.
struct BatchLine {
  std::string custom_id;  // also of a line with an error, where it could be read
  std::string url, body;
  std::optional<Error> error;  // names the field in `param`
};
BatchLine parse_batch_line(std::string_view text);

struct BatchAnswer {
  std::string id, custom_id, request_id;
  int status = 200;
  std::string body;  // JSON, or any text
};
// One line, without its end.
std::string batch_answer_line(const BatchAnswer& answer);

// A line that no request could be made of, by its number in the input.
struct BatchFailure {
  std::string id, custom_id;
  int64_t line = 0;
  std::string code, message, param;
};
std::string batch_failure_line(const BatchFailure& failure);

// What a line of the output says: an answer to `custom_id`, or a failure of the input's line `line`.
struct AnsweredLine {
  std::string custom_id;
  int64_t line = 0;  // 0: an answer
  bool ok = false;
};
// nullopt when it is no such line.
std::optional<AnsweredLine> parse_answered_line(std::string_view text);

}  // namespace pagoda::openai
