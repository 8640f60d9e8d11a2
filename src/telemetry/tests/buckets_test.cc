#include "telemetry/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pagoda::telemetry {
namespace {

using Bounds = std::vector<double>;

// The lists of the wire contract.
TEST(BucketsTest, AreThoseOfTheDashboard) {
  EXPECT_EQ(latency_buckets(), (Bounds{.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                       30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}));
  EXPECT_EQ(ttft_buckets(), (Bounds{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}));
  EXPECT_EQ(inter_token_buckets(),
            (Bounds{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}));
  EXPECT_EQ(choice_buckets(), (Bounds{1, 2, 5, 10, 20}));
}

TEST(BucketsTest, OneTwoFiveStopsAtTheMaximum) {
  EXPECT_EQ(one_two_five_buckets(8192), (Bounds{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}));
  EXPECT_EQ(one_two_five_buckets(10), (Bounds{1, 2, 5, 10}));
  EXPECT_EQ(one_two_five_buckets(9), (Bounds{1, 2, 5}));
  EXPECT_EQ(one_two_five_buckets(0), (Bounds{1}));
  EXPECT_EQ(one_two_five_buckets(-7), (Bounds{1}));
  EXPECT_EQ(one_two_five_buckets(131072).back(), 100000);
}

TEST(BucketsTest, StepTokensHoldBothSeries) {
  const Bounds bounds = step_token_buckets();
  for (const double bound : {1., 8., 16., 32., 64., 128., 256., 512., 1024., 2048., 4096., 8192., 16384.}) {
    EXPECT_TRUE(std::binary_search(bounds.begin(), bounds.end(), bound)) << bound;
  }
  for (const double bound : one_two_five_buckets(10000)) {
    EXPECT_TRUE(std::binary_search(bounds.begin(), bounds.end(), bound)) << bound;
  }
}

TEST(BucketsTest, AllListsAscendStrictly) {
  for (const Bounds& bounds : {latency_buckets(), ttft_buckets(), inter_token_buckets(), choice_buckets(),
                               step_token_buckets(), step_seconds_buckets(), http_buckets()}) {
    EXPECT_TRUE(std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end());
  }
}

TEST(BucketsTest, HttpKeepsTheBoundsOfTheInstrumentation) {
  const Bounds bounds = http_buckets();
  for (const double bound : {.1, .5, 1.})
    EXPECT_TRUE(std::binary_search(bounds.begin(), bounds.end(), bound)) << bound;
}

}  // namespace
}  // namespace pagoda::telemetry
