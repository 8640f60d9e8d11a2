#include "model/loader/hf_names.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model/loader/float_matrix.h"

namespace pagoda::model {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 4> kGpt2Names = {{{"ln_1", "input_layernorm"},
                                                 {"ln_2", "post_attention_layernorm"},
                                                 {"mlp.c_fc", "mlp.up_proj"},
                                                 {"mlp.c_proj", "mlp.down_proj"}}};
constexpr std::array<NamePair, 3> kGpt2TopNames = {
    {{"wte", "model.embed_tokens"}, {"wpe", "model.embed_positions"}, {"ln_f", "model.norm"}}};
constexpr std::array<NamePair, 2> kStarcoder2Names = {
    {{"mlp.c_fc", "mlp.up_proj"}, {"mlp.c_proj", "mlp.down_proj"}}};
constexpr std::array<NamePair, 3> kMixtralNames = {
    {{"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}}};

template <size_t N>
std::string_view lookup(const std::array<NamePair, N>& names, std::string_view key) {
  for (const auto& [from, to] : names) {
    if (from == key) return to;
  }
  return {};
}

// "model.layers.3.mlp.c_fc.weight" with the layers under "model.layers.": prefix "model.layers.3.", stem
// "mlp.c_fc", kind ".weight". The prefix is empty for a tensor of no layer.
struct Name {
  std::string prefix;
  std::string_view stem, kind;
};

Name split(std::string_view name, std::string_view layers) {
  Name parts;
  if (name.starts_with(layers)) {
    const size_t dot = name.find('.', layers.size());
    if (dot == std::string_view::npos) return parts;
    parts.prefix = "model.layers." + std::string(name.substr(layers.size(), dot + 1 - layers.size()));
    name.remove_prefix(dot + 1);
  }
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return parts;
  parts.stem = name.substr(0, dot);
  parts.kind = name.substr(dot);
  return parts;
}

class Views {
 public:
  Views(const ModelConfig& config, const TensorSource& tensors) : config_(config), infos_(tensors.list()) {}

  std::vector<TensorView> make() {
    for (const TensorInfo& info : infos_) {
      switch (config_.architecture) {
        case Architecture::kGpt2:
          gpt2(info);
          break;
        case Architecture::kStarcoder2:
          rename(info, split(info.name, kLayers), kStarcoder2Names);
          break;
        case Architecture::kPhi3:
          fused(info);
          break;
        case Architecture::kMixtral:
          mixtral(info);
          break;
        default:
          break;
      }
    }
    return std::move(views_);
  }

  std::vector<TensorView> make_fused() {
    for (const TensorInfo& info : infos_) {
      fused(info);
      stacked_experts(info);
    }
    return std::move(views_);
  }

 private:
  static constexpr std::string_view kLayers = "model.layers.";

  template <size_t N>
  void rename(const TensorInfo& info, const Name& name, const std::array<NamePair, N>& names) {
    const std::string_view to = lookup(names, name.stem);
    if (!to.empty() && !name.prefix.empty())
      add(info, name.prefix + std::string(to) + std::string(name.kind));
  }

  void add(const TensorInfo& info, std::string name) { views_.push_back({std::move(name), info.name}); }

  // The parts of a fused tensor, one after the other.
  struct Part {
    std::string_view stem;
    int64_t rows;
  };
  template <size_t N>
  void add_parts(const TensorInfo& info, const Name& name, const std::array<Part, N>& parts) {
    int64_t total = 0, first = 0;
    for (const Part& part : parts) total += part.rows;
    for (const Part& part : parts) {
      views_.push_back({name.prefix + std::string(part.stem) + std::string(name.kind), info.name, first,
                        part.rows, total});
      first += part.rows;
    }
  }

  std::array<Part, 3> qkv() const {
    const int64_t q = int64_t{config_.num_heads} * config_.head_dim;
    const int64_t kv = int64_t{config_.num_kv_heads} * config_.head_dim;
    return {{{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}}};
  }

  void fused(const TensorInfo& info) {
    const Name name = split(info.name, kLayers);
    if (name.prefix.empty()) return;
    if (name.stem == "self_attn.qkv_proj") add_parts(info, name, qkv());
    if (name.stem == "mlp.gate_up_proj") {
      const int64_t width = config_.intermediate_size;
      add_parts(info, name, std::array<Part, 2>{{{"mlp.gate_proj", width}, {"mlp.up_proj", width}}});
    }
  }

  void stacked_experts(const TensorInfo& info) {
    const Name name = split(info.name, kLayers);
    constexpr std::string_view kStart = "mlp.experts.";
    if (name.prefix.empty() || !name.stem.starts_with(kStart)) return;
    const std::string_view which = name.stem.substr(kStart.size());
    const int64_t rows = which == "down_proj" ? config_.hidden_size : config_.moe.intermediate_size;
    for (int64_t expert = 0; expert < config_.moe.num_experts; ++expert) {
      views_.push_back({name.prefix + std::string(kStart) + std::to_string(expert) + "." +
                            std::string(which) + std::string(name.kind),
                        info.name, expert * rows, rows, config_.moe.num_experts * rows});
    }
  }

  // The names of the first published files lack "transformer.". Conv1D keeps its weights inputs first;
  // quantised ones are outputs first as everywhere.
  void gpt2(const TensorInfo& info) {
    const size_t first = views_.size();
    constexpr std::string_view kRoot = "transformer.";
    std::string_view bare = info.name;
    if (bare.starts_with(kRoot)) bare.remove_prefix(kRoot.size());
    const Name name = split(bare, "h.");
    if (name.prefix.empty()) {
      const std::string_view top = lookup(kGpt2TopNames, name.stem);
      if (!top.empty()) add(info, std::string(top) + std::string(name.kind));
      return;
    }
    rename(info, name, kGpt2Names);
    if (name.stem == "attn.c_proj") add(info, name.prefix + "self_attn.o_proj" + std::string(name.kind));
    if (name.stem == "attn.c_attn") add_parts(info, name, qkv());
    const bool stored_inputs_first = info.shape.size() == 2 && float_dtype(info.format).has_value();
    for (size_t i = first; i < views_.size(); ++i) views_[i].transposed = stored_inputs_first;
  }

  void mixtral(const TensorInfo& info) {
    const Name name = split(info.name, kLayers);
    constexpr std::string_view kBlock = "block_sparse_moe.";
    if (name.prefix.empty() || !name.stem.starts_with(kBlock)) return;
    const std::string_view rest = name.stem.substr(kBlock.size());
    const size_t dot = rest.rfind('.');
    const std::string_view to =
        dot == std::string_view::npos ? std::string_view() : lookup(kMixtralNames, rest.substr(dot + 1));
    const std::string stem =
        to.empty() ? std::string(rest) : std::string(rest.substr(0, dot + 1)) + std::string(to);
    add(info, name.prefix + "mlp." + stem + std::string(name.kind));
  }

  const ModelConfig& config_;
  std::vector<TensorInfo> infos_;
  std::vector<TensorView> views_;
};

}  // namespace

std::vector<TensorView> hf_tensor_views(const ModelConfig& config, const TensorSource& tensors) {
  return Views(config, tensors).make();
}

std::vector<TensorView> fused_tensor_views(const ModelConfig& config, const TensorSource& tensors) {
  return Views(config, tensors).make_fused();
}

}  // namespace pagoda::model
