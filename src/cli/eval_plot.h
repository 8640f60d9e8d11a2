// A scatter plot as SVG: a figure over the size of models.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pagoda::cli {

struct PlotPoint {
  std::string label;
  double x = 0, y = 0;
};

struct Plot {
  std::string title, x_title, y_title;
  bool logarithmic_y = false;  // then all y > 0
  std::vector<PlotPoint> points;
};

// A document of its own, text escaped. Points need not be there.
std::string plot_svg(const Plot& plot);

// Round values from at most `low` to at least `high`, about `wanted` of them: multiples of 1, 2 or 5 times a
// power of ten.
std::vector<double> round_ticks(double low, double high, int wanted);
// 1, 2 and 5 times the powers of ten; the powers alone when the range has many. low > 0.
std::vector<double> logarithmic_ticks(double low, double high);

}  // namespace pagoda::cli
