// Stop strings over a stream of text pieces (CASES B005-B010).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text {

// The match that ends earliest in the text wins; of those that end together the one that starts first. Only a suffix that
// can still become a stop string is held back. O(total stop length) per byte at worst, no backtracking.
class StopMatcher {
 public:
  // `stops` are non-empty. include_stop: the stop string itself is emitted.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  struct Output {
    std::string text;        // certain text
    bool stopped = false;    // a stop string was found; nothing may follow
    int stop_index = -1;     // which one
  };
  Output push(std::string_view piece);
  // The end of the output without a match: what was held back.
  std::string finish();

 private:
  struct State {
    size_t matched = 0;  // length of the longest suffix of the text that is a prefix of this stop
    std::vector<size_t> failure;  // Knuth, Morris and Pratt 1977
  };
  std::vector<std::string> stops_;
  std::vector<State> states_;
  bool include_stop_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace pagoda::text
