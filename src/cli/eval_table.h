// What was measured of several models, as text for people and programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagoda::cli {

// One model. What was not measured is absent.
struct EvalRow {
  std::string name;
  std::string path, flags;          // as they were given
  std::string format;               // short: "float32", "int4", "gptq 4-bit g128", "Q4_1"
  std::string file_format, layout;  // as `pagoda inspect` has them
  bool is_reference = false;
  double size_mb = 0;  // of the files; MB are millions of bytes
  double weights_mb = 0;
  std::optional<double> memory_mb;
  std::optional<double> decode, prefill;  // tokens/s
  std::optional<double> perplexity, kl_mean, kl_p99;
  std::optional<double> top1_percent;
  std::optional<double> accuracy_percent, accuracy_normalised_percent;
  std::optional<double> pass_percent;
  int64_t text_tokens = 0, questions = 0, problems = 0, problems_passed = 0, problems_timed_out = 0;
};

// What the rows have in common, for those who read the figures later.
struct EvalSetting {
  std::string version, machine;
  int threads = 0;
  std::string text;  // path or "builtin"; empty: none was read
  int64_t window = 0;
  std::string reference;  // name; empty: none
  std::string multiple_choice, choice_scoring, humaneval;
};

enum class TableFormat : uint8_t { kPlain, kMarkdown, kJson };

// Columns that no row has are left out. Ends with a line break.
std::string eval_table(const EvalSetting& setting, const std::vector<EvalRow>& rows, TableFormat format);

// The figure that a plot shows over the size of the weights: the most telling one that all rows but the
// reference have.
struct PlotFigure {
  std::string title;
  bool logarithmic = false;
  std::vector<std::optional<double>> values;  // one per row
};
PlotFigure figure_for_plot(const std::vector<EvalRow>& rows);

}  // namespace pagoda::cli
