// JSON syntax, checked a character at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pagoda::openai {

// One value without space around it.
class JsonScanner {
 public:
  enum class Step : uint8_t {
    kMore,
    kDone,        // the value ends with this character
    kDoneBefore,  // a number ended before this character
    kBroken,
  };
  Step feed(char c);

 private:
  enum class State : uint8_t {
    kValue,
    kFirstElement,
    kFirstKey,
    kKey,
    kColon,
    kCommaOrEnd,
    kString,
    kEscape,
    kHex,
    kNumber,
    kWord,
    kBroken,
  };
  Step start_value(char c);
  Step open(char close, State next);
  Step in_string(char c);
  Step in_number(char c);
  Step separator(char c);
  Step end_value();
  Step broken();

  State state_ = State::kValue;
  std::vector<char> closers_;  // of the containers around, innermost last
  bool is_key_ = false;        // the string is a key
  int hex_left_ = 0;
  std::string word_;  // true, false, null: what is still to come; a number so far
};

}  // namespace pagoda::openai
