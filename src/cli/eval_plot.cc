#include "cli/eval_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pagoda::cli {
namespace {

constexpr double kWidth = 760, kHeight = 480;
constexpr double kLeft = 84, kRight = 30, kTop = 48, kBottom = 60;
// More decades than these get a tick per power of ten.
constexpr double kDenseDecades = 2.5;
constexpr double kLabelHeight = 14, kLabelWidthPerLetter = 6.5;

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// One direction: values to pixels.
struct Axis {
  std::vector<double> ticks;
  double from = 0, to = 0;  // pixels of the first and the last tick
  bool logarithmic = false;

  double at(double value) const {
    const auto scale = [&](double v) { return logarithmic ? std::log10(v) : v; };
    const double low = scale(ticks.front()), high = scale(ticks.back());
    return from + (scale(value) - low) / (high - low) * (to - from);
  }
};

Axis make_axis(std::vector<double> values, bool logarithmic, double from, double to) {
  if (values.empty()) values = {1};
  const auto [low, high] = std::ranges::minmax(values);
  const double room = (high - low) * 0.08;
  Axis axis;
  axis.ticks = logarithmic ? logarithmic_ticks(low, high) : round_ticks(low - room, high + room, 6);
  axis.from = from;
  axis.to = to;
  axis.logarithmic = logarithmic;
  return axis;
}

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escape(text));
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  for (const double tick : x.ticks) {
    const double at = x.at(tick);
    out += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#e3e3e3\"/>\n", at, kTop,
                       kHeight - kBottom);
    out += text_at(at, kHeight - kBottom + 18, "text-anchor=\"middle\"", fmt::format("{:g}", tick));
  }
  for (const double tick : y.ticks) {
    const double at = y.at(tick);
    out += fmt::format("<path d=\"M{0:.1f} {2:.1f}H{1:.1f}\" stroke=\"#e3e3e3\"/>\n", kLeft, kWidth - kRight,
                       at);
    out += text_at(kLeft - 8, at + 4, "text-anchor=\"end\"", fmt::format("{:g}", tick));
  }
  return out;
}

struct Label {
  double x = 0, y = 0, width = 0;
  bool overlaps(const Label& other) const {
    return std::abs(y - other.y) < kLabelHeight && x < other.x + other.width && other.x < x + width;
  }
};

// A point and its name: at its right, or at its left near the edge, lower where another name is in the way.
std::string draw_point(const PlotPoint& point, const Axis& x, const Axis& y, std::vector<Label>& labels) {
  const double px = x.at(point.x), py = y.at(point.y);
  Label label{px + 9, py + 4, kLabelWidthPerLetter * static_cast<double>(point.label.size())};
  if (label.x + label.width > kWidth) label.x = std::max(4.0, px - 9 - label.width);
  while (std::ranges::any_of(labels, [&](const Label& other) { return label.overlaps(other); })) {
    label.y += kLabelHeight;
  }
  labels.push_back(label);
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"#1f6fb2\"/>\n", px, py) +
         text_at(label.x, label.y, "fill=\"#222\"", point.label);
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int wanted) {
  if (!(high > low)) {
    const double room = std::max(std::abs(low) * 0.1, 1e-9);
    low -= room;
    high += room;
  }
  const double raw = (high - low) / std::max(1, wanted - 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  for (auto i = static_cast<int64_t>(std::floor(low / step + 1e-9)); i <= last; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

std::vector<double> logarithmic_ticks(double low, double high) {
  const bool dense = std::log10(high / low) <= kDenseDecades;
  std::vector<double> all;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high))) + 1;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor == 1.0 || dense) all.push_back(factor * std::pow(10.0, exponent));
    }
  }
  // from the last that is not above all values to the first that is
  auto begin = std::ranges::upper_bound(all, low * (1 + 1e-9));
  if (begin != all.begin()) --begin;
  auto end = std::ranges::upper_bound(all, high * (1 - 1e-9));
  if (end != all.end()) ++end;
  if (end - begin < 2 && end != all.end()) ++end;
  return {begin, end};
}

std::string plot_svg(const Plot& plot) {
  std::vector<double> xs, ys;
  for (const PlotPoint& point : plot.points) {
    xs.push_back(point.x);
    ys.push_back(point.y);
  }
  const Axis x = make_axis(xs, false, kLeft, kWidth - kRight);
  const Axis y = make_axis(ys, plot.logarithmic_y, kHeight - kBottom, kTop);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#555\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, kHeight);
  out += grid(x, y);
  out += text_at(kLeft, 26, "font-size=\"15\" fill=\"#222\"", plot.title);
  out += text_at((kLeft + kWidth - kRight) / 2, kHeight - 16, "text-anchor=\"middle\"", plot.x_title);
  out +=
      fmt::format("<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                  (kTop + kHeight - kBottom) / 2, escape(plot.y_title));
  std::vector<Label> labels;
  for (const PlotPoint& point : plot.points) out += draw_point(point, x, y, labels);
  return out + "</svg>\n";
}

}  // namespace pagoda::cli
