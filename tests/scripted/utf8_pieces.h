// Bytes to text as they arrive: whole characters pass, an incomplete one waits, bad bytes become U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace pagoda::scripted {

class Utf8Pieces {
 public:
  // What becomes certain with these bytes. One U+FFFD per maximal bad part (The Unicode Standard, 3.9).
  std::string push(std::string_view bytes);
  // The end: an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace pagoda::scripted
