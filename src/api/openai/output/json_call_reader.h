// One call as most models write it: {"name": "f", "arguments": {...}}, a character at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/openai/output/json_scanner.h"

namespace pagoda::openai {

class JsonCallReader {
 public:
  // `name_keyed`: {"f": {...}} instead.
  explicit JsonCallReader(bool name_keyed = false) : name_keyed_(name_keyed) {}

  enum class State : uint8_t { kMore, kDone, kBroken };
  // The character that breaks it is not part of it.
  State feed(char c);

  // Set once it has been read. Keys: name or tool_name; arguments or parameters, an object or the text of
  // one.
  const std::optional<std::string>& name() const { return name_; }
  // The name is known and arguments have begun, or the call is whole.
  bool begun() const { return name_ && (!arguments_.empty() || taken_any_); }
  // The arguments since the last call; not before the name is known.
  std::string take_arguments();

 private:
  enum class Phase : uint8_t { kOpen, kFirstKey, kKey, kInKey, kColon, kValue, kInValue, kAfterValue, kDone };
  State in_key(char c);
  State start_value(char c);
  State in_value(char c);
  bool end_value();
  State finish();

  bool is_arguments() const;

  bool name_keyed_;
  Phase phase_ = Phase::kOpen;
  JsonScanner scanner_;
  std::string text_;  // of the key or the value that is being read
  std::string key_;
  std::optional<std::string> name_;
  std::string arguments_;
  bool streams_ = false;        // the value is the object of arguments
  bool has_arguments_ = false;  // the key has come
  bool taken_any_ = false;
};

}  // namespace pagoda::openai
