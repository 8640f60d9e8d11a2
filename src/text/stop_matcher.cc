#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda::text {
namespace {

// failure[m] for m in [1, n]: length of the longest proper prefix of `stop` that is a suffix of its first m
// bytes.
std::vector<size_t> failure_function(const std::string& stop) {
  std::vector<size_t> failure(stop.size() + 1, 0);
  size_t length = 0;
  for (size_t m = 1; m < stop.size(); ++m) {
    while (length > 0 && stop[m] != stop[length]) length = failure[length];
    if (stop[m] == stop[length]) ++length;
    failure[m + 1] = length;
  }
  return failure;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {
  states_.reserve(stops_.size());
  for (const std::string& stop : stops_) {
    PAGODA_CHECK(!stop.empty(), "an empty stop string matches everywhere");
    states_.push_back(State{0, failure_function(stop)});
  }
}

bool StopMatcher::advance(const std::string& stop, State& state, char byte) {
  while (state.matched > 0 && stop[state.matched] != byte) state.matched = state.failure[state.matched];
  if (stop[state.matched] == byte) ++state.matched;
  return state.matched == stop.size();
}

size_t StopMatcher::longest_partial_match() const {
  size_t longest = 0;
  for (const State& state : states_) longest = std::max(longest, state.matched);
  return longest;
}

StopMatcher::Output StopMatcher::stop_at(int stop_index) {
  stop_index_ = stop_index;
  const size_t stop_size = stops_[static_cast<size_t>(stop_index)].size();
  held_.resize(include_stop_ ? held_.size() : held_.size() - stop_size);
  return Output{std::exchange(held_, {}), true, stop_index};
}

StopMatcher::Output StopMatcher::push(std::string_view piece) {
  if (stop_index_ >= 0) return Output{{}, true, stop_index_};
  for (const char byte : piece) {
    held_.push_back(byte);
    int found = -1;
    for (size_t i = 0; i < stops_.size(); ++i) {
      if (!advance(stops_[i], states_[i], byte)) continue;
      // All of these end here, so the longest is the one that starts first.
      if (found < 0 || stops_[i].size() > stops_[static_cast<size_t>(found)].size())
        found = static_cast<int>(i);
    }
    if (found >= 0) return stop_at(found);
  }
  size_t certain = held_.size() - longest_partial_match();
  Output output{held_.substr(0, certain), false, -1};
  held_.erase(0, certain);
  return output;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace pagoda::text
