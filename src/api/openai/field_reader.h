// Typed access to the fields of one JSON object, with errors that name the field, the value and the limit.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "api/openai/json_text.h"
#include "base/ids.h"
#include "base/result.h"

namespace pagoda::openai {

struct NumberRange {
  double min, max;
  bool min_open = false;  // the minimum itself is refused
};

// Reads fields one after the other. A field that is absent or null gives nullopt; a wrong one does too and
// its error is kept: the first is the request's error, so callers check error() once at the end.
class FieldReader {
 public:
  // `object` must outlive the reader. `prefix` goes before names in messages ("stream_options.").
  explicit FieldReader(const Json& object, std::string prefix = {});

  // The raw value; nullptr when absent or null. Every access marks the field as known.
  const Json* value(const char* name);
  bool present(const char* name) { return value(name) != nullptr; }

  std::optional<bool> boolean(const char* name);
  // 100.0 is taken as 100; 1.5, "100", true and anything outside 64 bits are refused.
  std::optional<int64_t> integer(const char* name, int64_t min, int64_t max);
  std::optional<double> number(const char* name, const NumberRange& range);
  std::optional<std::string> string(const char* name);
  // nullptr when absent or of another kind, which is an error.
  const Json* object(const char* name);
  const Json* list(const char* name);
  std::optional<std::vector<TokenId>> token_ids(const char* name, int64_t vocab_size);

  void fail(const char* name, std::string message);
  void fail(Error error);
  const std::optional<Error>& error() const { return error_; }

  // Takes the error of an object inside, or the names that nobody asked for there.
  void finish(const FieldReader& inner);

  // Names that nobody asked for, in the order of the body; those of objects inside come last.
  std::vector<std::string> unknown_fields() const;

 private:
  const Json& object_;
  std::string prefix_;
  std::unordered_set<std::string> known_;
  std::vector<std::string> unknown_inside_;
  std::optional<Error> error_;
};

// Notes on this thread, while it lives, which fields of a body its readers ask for; objects inside count with
// their prefix. Tests hold it against contract.h. What a parser reads from a body that it has made itself is
// left out.
class FieldRecorder {
 public:
  FieldRecorder();
  ~FieldRecorder();
  FieldRecorder(const FieldRecorder&) = delete;
  FieldRecorder& operator=(const FieldRecorder&) = delete;

  const std::set<std::string>& names() const { return names_; }

 private:
  friend class FieldReader;
  void record(const Json& object, const std::string& prefix, const char* name);

  std::set<const Json*> body_objects_;  // the first one is the body
  std::set<std::string> names_;
};

// The integer in `value` if it is one in the sense of FieldReader::integer.
std::optional<int64_t> exact_integer(const Json& value);

// "1.5", "\"ten\"", "an array": what a message says was got. Long strings are cut.
std::string describe(const Json& value);

// A list of token ids in [0, vocab_size). `name` is the field at fault.
Result<std::vector<TokenId>> read_token_ids(const Json& list, const std::string& name, int64_t vocab_size);

}  // namespace pagoda::openai
