#include "cli/eval_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pagoda::cli {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(EvalPlotTest, RoundTicks) {
  EXPECT_THAT(round_ticks(0, 10, 6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(97, 541, 6), ElementsAre(0, 100, 200, 300, 400, 500, 600));
  EXPECT_THAT(round_ticks(0.1, 0.28, 4),
              ElementsAre(DoubleNear(0.1, 1e-12), DoubleNear(0.2, 1e-12), DoubleNear(0.3, 1e-12)));
  for (const double value : {0.0, 5.0, -3.0, 1e9}) {
    const auto ticks = round_ticks(value, value, 6);
    ASSERT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.front(), value);
    EXPECT_GE(ticks.back(), value);
  }
}

TEST(EvalPlotTest, LogarithmicTicks) {
  EXPECT_THAT(logarithmic_ticks(0.03, 0.4),
              ElementsAre(DoubleNear(0.02, 1e-12), DoubleNear(0.05, 1e-12), DoubleNear(0.1, 1e-12),
                          DoubleNear(0.2, 1e-12), DoubleNear(0.5, 1e-12)));
  const auto wide = logarithmic_ticks(3e-5, 2);
  EXPECT_NEAR(wide.front(), 1e-5, 1e-12);
  EXPECT_NEAR(wide.back(), 10, 1e-9);
  EXPECT_EQ(wide.size(), 7u);
  EXPECT_GE(logarithmic_ticks(1, 1).size(), 2u);
}

TEST(EvalPlotTest, PointsAndEscapedNames) {
  Plot plot{.title = "KL <over> size", .x_title = "MB", .y_title = "KL", .logarithmic_y = true, .points = {}};
  plot.points = {{"a & \"b\"", 100, 0.1}, {"c", 500, 0.001}, {"d", 500, 0.001}};
  const std::string svg = plot_svg(plot);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("KL &lt;over&gt; size"));
  EXPECT_THAT(svg, HasSubstr("a &amp; &quot;b&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  size_t circles = 0;
  for (size_t at = 0; (at = svg.find("<circle", at)) != std::string::npos; ++at) ++circles;
  EXPECT_EQ(circles, 3u);
}

TEST(EvalPlotTest, NothingAndOnePoint) {
  EXPECT_THAT(plot_svg({}), Not(HasSubstr("nan")));
  Plot one;
  one.points = {{"x", 0, 0}};
  EXPECT_THAT(plot_svg(one), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace pagoda::cli
