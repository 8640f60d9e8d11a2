// Stop strings over a stream of text pieces (CASES B005-B010).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text {

// The match that ends earliest in the text wins; of those that end together the one that starts first. Only a
// suffix that can still become a stop string is held back. Amortised O(number of stops) per byte, no
// backtracking.
class StopMatcher {
 public:
  // `stops` are non-empty. include_stop: the stop string itself is emitted.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  struct Output {
    std::string text;      // certain text
    bool stopped = false;  // a stop string was found; nothing may follow
    int stop_index = -1;   // which one
  };
  // `piece` is whole characters, as DetokenizerStream makes them; so is what comes out. After a match nothing
  // does.
  Output push(std::string_view piece);
  // The end of the output without a match: what was held back.
  std::string finish();

 private:
  struct State {
    size_t matched = 0;  // length of the longest suffix of the text that is a prefix of this stop
    std::vector<size_t>
        failure;  // Knuth, Morris and Pratt 1977: failure[m] is where to go on when m bytes matched
  };
  // The text goes on with `byte`; true when a stop is complete.
  static bool advance(const std::string& stop, State& state, char byte);
  size_t longest_partial_match() const;
  Output stop_at(int stop_index);

  std::vector<std::string> stops_;
  std::vector<State> states_;
  bool include_stop_;
  std::string held_;
  int stop_index_ = -1;  // set once a stop was found
};

}  // namespace pagoda::text
