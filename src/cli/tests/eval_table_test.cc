#include "cli/eval_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pagoda::cli {
namespace {

std::vector<EvalRow> two_rows() {
  EvalRow exact, small;
  exact.name = "m";
  exact.format = "float32";
  exact.is_reference = true;
  exact.size_mb = 270;
  exact.weights_mb = 540;
  exact.perplexity = 10.83349;
  exact.kl_mean = exact.kl_p99 = 0;
  exact.top1_percent = 100;
  exact.text_tokens = 4084;
  small = exact;
  small.name = "a|b";
  small.format = "int4";
  small.is_reference = false;
  small.weights_mb = 99.5;
  small.memory_mb = 181.2;
  small.kl_mean = 0.0241234;
  small.kl_p99 = 0.3;
  small.top1_percent = 91.256;
  return {exact, small};
}

TEST(EvalTableTest, PlainTable) {
  EXPECT_EQ(eval_table({}, two_rows(), TableFormat::kPlain),
            "model          format   size MB  weights MB  memory MB  perplexity  KL mean  KL p99  top-1 %\n"
            "m (reference)  float32      270         540          -     10.8335     0.00    0.00   100.00\n"
            "a|b            int4         270        99.5        181     10.8335   0.0241   0.300    91.26\n");
}

TEST(EvalTableTest, MarkdownTable) {
  auto rows = two_rows();
  rows.erase(rows.begin());
  rows[0].memory_mb.reset();
  rows[0].kl_mean.reset();
  rows[0].kl_p99.reset();
  rows[0].top1_percent.reset();
  EXPECT_EQ(eval_table({}, rows, TableFormat::kMarkdown),
            "| model | format | size MB | weights MB | perplexity |\n"
            "|-------|--------|--------:|-----------:|-----------:|\n"
            "| a\\|b  | int4   |     270 |       99.5 |    10.8335 |\n");
}

TEST(EvalTableTest, JsonHasTheFiguresAsTheyAre) {
  auto rows = two_rows();
  rows[1].problems = 4;
  rows[1].problems_passed = 3;
  rows[1].pass_percent = 75;
  EvalSetting setting;
  setting.version = "1";
  setting.text = "builtin";
  setting.window = 1024;
  setting.reference = "m";
  const auto json = nlohmann::json::parse(eval_table(setting, rows, TableFormat::kJson));
  EXPECT_EQ(json["text"]["window"], 1024);
  EXPECT_EQ(json["reference"], "m");
  EXPECT_FALSE(json.contains("humaneval"));
  ASSERT_EQ(json["models"].size(), 2u);
  EXPECT_EQ(json["models"][0]["reference"], true);
  EXPECT_FALSE(json["models"][0].contains("memory_mb"));
  EXPECT_EQ(json["models"][1]["kl_mean"], 0.0241234);
  EXPECT_EQ(json["models"][1]["perplexity"], 10.83349);
  EXPECT_EQ(json["models"][1]["problems_passed"], 3);
  EXPECT_EQ(json["models"][1]["pass_at_1_percent"], 75);
}

TEST(EvalTableTest, ThePlotShowsTheMostTellingFigure) {
  auto rows = two_rows();
  PlotFigure figure = figure_for_plot(rows);
  EXPECT_TRUE(figure.logarithmic);
  EXPECT_FALSE(figure.values[0].has_value()) << "0 has no logarithm";
  EXPECT_EQ(figure.values[1], 0.0241234);
  rows[0].accuracy_percent = 30;
  EXPECT_TRUE(figure_for_plot(rows).logarithmic);
  rows[1].accuracy_percent = 25;
  figure = figure_for_plot(rows);
  EXPECT_EQ(figure.title, "accuracy %");
  EXPECT_EQ(figure.values[1], 25);
  for (EvalRow& row : rows) {
    row.accuracy_percent.reset();
    row.kl_mean.reset();
  }
  EXPECT_EQ(figure_for_plot(rows).title, "perplexity");
}

}  // namespace
}  // namespace pagoda::cli
