#include "quantize/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/loader/model_check.h"

namespace pagoda::quantize {
namespace {

constexpr std::array<std::pair<std::string_view, Method>, 4> kMethods = {
    {{"rtn", Method::kRtn}, {"gptq", Method::kGptq}, {"awq", Method::kAwq}, {"int8", Method::kInt8}}};

Error wrong(const char* flag, std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), flag);
}

// Routers choose experts: rounding them changes more than it saves.
bool is_router(std::string_view name) {
  return name.ends_with(".mlp.gate.weight");
}

model::LayerWeights::Input input_of(std::string_view stem) {
  using Input = model::LayerWeights::Input;
  if (stem.ends_with(".o_proj")) return Input::kAttentionOut;
  if (stem.ends_with(".down_proj")) return Input::kDown;
  return stem.find(".mlp.") != std::string_view::npos ? Input::kFeedForward : Input::kQkv;
}

Result<void> check_packing(const Options& options, const Linear& linear) {
  const int64_t per_word = 32 / options.bits;
  if (linear.depth % per_word == 0 && linear.rows % per_word == 0) return {};
  return make_error(ErrorKind::kUnsupportedModel,
                    fmt::format("{} of {} x {} can't be packed into words of {} codes", linear.stem,
                                linear.rows, linear.depth, per_word));
}

Result<void> check_groups(const Options& options, const std::vector<Linear>& linears) {
  const auto wrong_for = [](const Options& asked) {
    return [&asked](const Linear& linear) { return linear.depth % asked.columns(linear.depth) != 0; };
  };
  const auto found = std::find_if(linears.begin(), linears.end(), wrong_for(options));
  if (found == linears.end()) return {};
  std::string fitting;
  for (const int64_t size : {128, 64, 32}) {
    Options other = options;
    other.group_size = size;
    if (std::none_of(linears.begin(), linears.end(), wrong_for(other))) fitting += fmt::format("{}, ", size);
  }
  if (!fitting.empty()) fitting.replace(fitting.size() - 2, 2, " or ");
  return wrong("--group-size",
               fmt::format("--group-size {} does not divide the {} inputs of {}; {}-1 would do",
                           options.group_size, found->depth, found->stem, fitting));
}

}  // namespace

std::string_view method_name(Method method) {
  for (const auto& [name, known] : kMethods) {
    if (known == method) return name;
  }
  return "?";
}

std::optional<Method> method_from_name(std::string_view name) {
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  return std::nullopt;
}

std::string options_name(const Options& options) {
  if (options.method == Method::kInt8) return "int8 per channel";
  const std::string groups =
      options.group_size == Options::kWholeRow ? "per channel" : fmt::format("g{}", options.group_size);
  const bool nearest = options.method == Method::kAwq && options.rounding == Rounding::kNearest;
  return fmt::format("{} {}-bit {}{}{}{}", method_name(options.method), options.bits, groups,
                     options.symmetric ? " sym" : "", options.act_order ? " desc_act" : "",
                     nearest ? " rounded to nearest" : "");
}

std::vector<Linear> layer_linears(const model::ModelConfig& config, int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  constexpr std::string_view kWeight = ".weight";
  std::vector<Linear> linears;
  for (const model::RequiredTensor& tensor : model::required_tensors(config)) {
    if (tensor.depth == 0 || !tensor.name.starts_with(prefix) || is_router(tensor.name)) continue;
    const std::string stem = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    linears.push_back({stem, tensor.rows, tensor.depth, input_of(stem)});
  }
  return linears;
}

Result<void> check_options(const Options& options, const model::ModelConfig& config) {
  if (options.act_order && options.method != Method::kGptq) {
    return wrong("--desc-act", "--desc-act is for the method gptq");
  }
  if (options.calibrated() && !config.moe.layers.empty()) {
    return make_error(ErrorKind::kUnsupportedModel,
                      fmt::format("the method {} can't quantise experts yet; rtn and int8 can",
                                  method_name(options.method)));
  }
  if (options.method == Method::kInt8) {
    if (options.bits == 8) return {};
    return wrong("--bits", fmt::format("--bits {}: the method int8 has 8 bits", options.bits));
  }
  if (options.method == Method::kAwq) {
    if (options.bits != 4)
      return wrong("--bits", fmt::format("--bits {}: the method awq has 4 bits", options.bits));
    if (options.symmetric) return wrong("--sym", "--sym: the method awq has zero points");
  }
  if (options.bits != 4 && options.bits != 8) {
    return wrong("--bits", fmt::format("--bits is {}; 4 and 8 can be written", options.bits));
  }
  constexpr std::array<int64_t, 4> kSizes = {Options::kWholeRow, 32, 64, 128};
  if (std::find(kSizes.begin(), kSizes.end(), options.group_size) == kSizes.end()) {
    return wrong("--group-size",
                 fmt::format("--group-size is {}; 32, 64, 128 and -1 (all of a row) can be written",
                             options.group_size));
  }
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const std::vector<Linear> linears = layer_linears(config, layer);
    PAGODA_TRY(check_groups(options, linears));
    for (const Linear& linear : linears) PAGODA_TRY(check_packing(options, linear));
  }
  return {};
}

}  // namespace pagoda::quantize
