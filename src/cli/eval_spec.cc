#include "cli/eval_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace pagoda::cli {
namespace {

constexpr std::string_view kSeparator = "::";

Error spec_error(const std::string& text, std::string_view what) {
  return make_error(ErrorKind::kInvalidArgument,
                    fmt::format("'{}': {}; the form is MODEL::flag=value,flag=value,name=TEXT", text, what));
}

bool changes_results(std::string_view arg) {
  static constexpr std::array<std::string_view, 5> kFlags = {
      "--dtype=", "--quantization=", "--head-dtype=", "--kv-cache-dtype=", "--activation-precision="};
  return std::ranges::any_of(kFlags, [&](std::string_view flag) { return arg.starts_with(flag); });
}

}  // namespace

Result<EvalSpec> parse_eval_spec(const std::string& text) {
  EvalSpec spec;
  const size_t at = text.find(kSeparator);
  spec.model = text.substr(0, at);
  if (spec.model.empty()) return spec_error(text, "there is no model");
  if (at == std::string::npos) return spec;
  std::string_view rest = std::string_view(text).substr(at + kSeparator.size());
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == part.size()) {
      return spec_error(text, fmt::format("'{}' is no flag=value", part));
    }
    std::string_view key = part.substr(0, equals);
    if (key.starts_with("--")) key.remove_prefix(2);
    if (key == "name") {
      spec.name = part.substr(equals + 1);
      continue;
    }
    spec.args.push_back(fmt::format("--{}{}", key, part.substr(equals)));
    spec.flags += fmt::format("{}{}{}", spec.flags.empty() ? "" : ",", key, part.substr(equals));
  }
  return spec;
}

std::vector<std::string> engine_args_of(const EvalSpec& spec, const std::vector<std::string>& for_all,
                                        bool is_reference) {
  std::vector<std::string> args;
  for (const std::string& arg : for_all) {
    if (!is_reference || !changes_results(arg)) args.push_back(arg);
  }
  if (is_reference) args.push_back("--dtype=float32");
  args.insert(args.end(), spec.args.begin(), spec.args.end());
  return args;
}

}  // namespace pagoda::cli
