#include "cli/eval_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace pagoda::cli {
namespace {

struct Column {
  const char* title;
  const char* key;  // in JSON
  int digits;       // behind the point; below 0: so many significant ones
  std::optional<double> (*value)(const EvalRow& row);
};

using Value = std::optional<double>;

constexpr std::array<Column, 13> kColumns{{
    {"size MB", "size_mb", 0, [](const EvalRow& r) { return Value(r.size_mb); }},
    {"weights MB", "weights_mb", 0, [](const EvalRow& r) { return Value(r.weights_mb); }},
    {"memory MB", "memory_mb", 0, [](const EvalRow& r) { return r.memory_mb; }},
    {"decode tok/s", "decode_tokens_per_s", 1, [](const EvalRow& r) { return r.decode; }},
    {"prefill tok/s", "prefill_tokens_per_s", 0, [](const EvalRow& r) { return r.prefill; }},
    {"perplexity", "perplexity", 4, [](const EvalRow& r) { return r.perplexity; }},
    {"KL mean", "kl_mean", -3, [](const EvalRow& r) { return r.kl_mean; }},
    {"KL p99", "kl_p99", -3, [](const EvalRow& r) { return r.kl_p99; }},
    {"top-1 %", "top1_percent", 2, [](const EvalRow& r) { return r.top1_percent; }},
    {"accuracy %", "accuracy_percent", 1, [](const EvalRow& r) { return r.accuracy_percent; }},
    {"accuracy norm %", "accuracy_normalised_percent", 1,
     [](const EvalRow& r) { return r.accuracy_normalised_percent; }},
    {"pass@1 %", "pass_at_1_percent", 1, [](const EvalRow& r) { return r.pass_percent; }},
    {"passed", "problems_passed", 0,
     [](const EvalRow& r) {
       return r.problems > 0 ? Value(static_cast<double>(r.problems_passed)) : Value();
     }},
}};

std::string cell(const Column& column, const EvalRow& row) {
  const Value value = column.value(row);
  if (!value) return "-";
  if (column.digits < 0) return fmt::format("{:#.{}g}", *value, -column.digits);
  // a model of a few MB should not have 0 of them
  const bool is_small = std::string_view(column.title).ends_with(" MB") && *value < 100;
  std::string text = fmt::format("{:.{}f}", *value, is_small ? 1 : column.digits);
  if (column.key == std::string_view("problems_passed")) text += fmt::format(" of {}", row.problems);
  return text;
}

// All cells, the titles first; columns that nobody has are gone.
std::vector<std::vector<std::string>> cells_of(const std::vector<EvalRow>& rows) {
  std::vector<std::vector<std::string>> lines(rows.size() + 1);
  lines[0] = {"model", "format"};
  for (size_t i = 0; i < rows.size(); ++i) {
    lines[i + 1] = {rows[i].name + (rows[i].is_reference ? " (reference)" : ""), rows[i].format};
  }
  for (const Column& column : kColumns) {
    if (std::ranges::none_of(rows, [&](const EvalRow& row) { return column.value(row).has_value(); }))
      continue;
    lines[0].push_back(column.title);
    for (size_t i = 0; i < rows.size(); ++i) lines[i + 1].push_back(cell(column, rows[i]));
  }
  return lines;
}

// Code points: what a terminal gives a cell each, for the names that models have.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string text_table(const std::vector<EvalRow>& rows, bool markdown) {
  auto lines = cells_of(rows);
  if (markdown) {
    for (auto& line : lines) {
      for (std::string& text : line) {
        for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
      }
    }
  }
  std::vector<size_t> widths(lines[0].size(), 3);
  for (const auto& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));
  }
  const char* between = markdown ? " | " : "  ";
  const auto print = [&](const std::vector<std::string>& line) {
    std::string text = markdown ? "| " : "";
    for (size_t c = 0; c < line.size(); ++c) {
      const std::string padding(widths[c] - width_of(line[c]), ' ');
      text += (c == 0 ? "" : between) + (c < 2 ? line[c] + padding : padding + line[c]);
    }
    if (markdown) return text + " |\n";
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string out = print(lines[0]);
  if (markdown) {
    for (size_t c = 0; c < widths.size(); ++c) {
      out += c < 2 ? fmt::format("|{:-<{}}", "", widths[c] + 2) : fmt::format("|{:-<{}}:", "", widths[c] + 1);
    }
    out += "|\n";
  }
  for (size_t i = 1; i < lines.size(); ++i) out += print(lines[i]);
  return out;
}

std::string json_table(const EvalSetting& setting, const std::vector<EvalRow>& rows) {
  using nlohmann::ordered_json;
  ordered_json out;
  out["pagoda"] = setting.version;
  out["machine"] = setting.machine;
  out["threads"] = setting.threads;
  if (!setting.text.empty()) out["text"] = {{"name", setting.text}, {"window", setting.window}};
  if (!setting.reference.empty()) out["reference"] = setting.reference;
  if (!setting.multiple_choice.empty()) {
    out["multiple_choice"] = {{"name", setting.multiple_choice}, {"scoring", setting.choice_scoring}};
  }
  if (!setting.humaneval.empty()) out["humaneval"] = {{"name", setting.humaneval}};
  out["models"] = ordered_json::array();
  for (const EvalRow& row : rows) {
    ordered_json line = {{"name", row.name},
                         {"path", row.path},
                         {"flags", row.flags},
                         {"format", row.format},
                         {"file", row.file_format},
                         {"layout", row.layout},
                         {"reference", row.is_reference}};
    for (const Column& column : kColumns) {
      if (const Value value = column.value(row)) line[column.key] = *value;
    }
    if (row.text_tokens > 0) line["text_tokens"] = row.text_tokens;
    if (row.questions > 0) line["questions"] = row.questions;
    if (row.problems > 0) {
      line["problems"] = row.problems;
      line["problems_passed"] = row.problems_passed;
      line["problems_timed_out"] = row.problems_timed_out;
    }
    out["models"].push_back(std::move(line));
  }
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

PlotFigure figure(const char* title, const std::vector<EvalRow>& rows, Value EvalRow::*member) {
  PlotFigure result;
  result.title = title;
  for (const EvalRow& row : rows) result.values.push_back(row.*member);
  return result;
}

}  // namespace

std::string eval_table(const EvalSetting& setting, const std::vector<EvalRow>& rows, TableFormat format) {
  if (format == TableFormat::kJson) return json_table(setting, rows);
  return text_table(rows, format == TableFormat::kMarkdown);
}

PlotFigure figure_for_plot(const std::vector<EvalRow>& rows) {
  const auto all_have = [&](Value EvalRow::*member) {
    return std::ranges::all_of(rows, [&](const EvalRow& row) { return (row.*member).has_value(); });
  };
  if (all_have(&EvalRow::accuracy_percent)) return figure("accuracy %", rows, &EvalRow::accuracy_percent);
  if (all_have(&EvalRow::pass_percent)) return figure("pass@1 %", rows, &EvalRow::pass_percent);
  if (all_have(&EvalRow::kl_mean)) {
    // A reference, and what equals it, has no place on a logarithmic axis.
    PlotFigure kl = figure("mean KL to the reference (nats)", rows, &EvalRow::kl_mean);
    for (Value& value : kl.values) {
      if (*value <= 0) value.reset();
    }
    kl.logarithmic = true;
    return kl;
  }
  return figure("perplexity", rows, &EvalRow::perplexity);
}

}  // namespace pagoda::cli
