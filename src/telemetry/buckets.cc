#include "telemetry/buckets.h"

#include <algorithm>

namespace pagoda::telemetry {

std::vector<double> latency_buckets() {
  return {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

std::vector<double> ttft_buckets() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
}

std::vector<double> inter_token_buckets() {
  return {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}

std::vector<double> one_two_five_buckets(int64_t max) {
  std::vector<double> bounds;
  const auto limit = static_cast<double>(std::max<int64_t>(max, 1));
  for (double decade = 1;; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (step * decade > limit) return bounds;
      bounds.push_back(step * decade);
    }
  }
}

std::vector<double> choice_buckets() {
  return {1, 2, 5, 10, 20};
}

std::vector<double> step_token_buckets() {
  std::vector<double> bounds = one_two_five_buckets(10000);
  for (double tokens = 8; tokens <= 16384; tokens *= 2) bounds.push_back(tokens);
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

std::vector<double> step_seconds_buckets() {
  return {.0005, .001, .002, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2, 5, 10, 30};
}

std::vector<double> http_buckets() {
  return {.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

}  // namespace pagoda::telemetry
