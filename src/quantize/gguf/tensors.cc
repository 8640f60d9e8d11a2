#include "quantize/gguf/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "model/loader/float_matrix.h"
#include "model/loader/gguf_source.h"
#include "model/loader/model_check.h"
#include "quantize/gguf/architecture_keys.h"

namespace pagoda::quantize {
namespace {

using model::Architecture;
using Readers = std::vector<std::shared_ptr<const model::MatrixReader>>;

// Both are one where they are tied; rounding them to 4 bits costs more than it saves.
bool is_embedding_or_head(std::string_view name) {
  return name == "token_embd.weight" || name == "output.weight";
}

// Routers choose experts, and positions are added to all that follows: neither is large.
bool stays_float(std::string_view name) {
  return name.ends_with(".ffn_gate_inp.weight") || name == "position_embd.weight" ||
         name == "token_types.weight";
}

GgmlType type_of(std::string_view name, int64_t depth, GgmlType asked) {
  GgmlType type = asked;
  const bool four_bits = asked == GgmlType::kQ4_0 || asked == GgmlType::kQ4_K;
  if (four_bits && is_embedding_or_head(name)) type = GgmlType::kQ6_K;
  if (depth % block_elements(type) != 0) type = GgmlType::kQ8_0;
  return depth % block_elements(type) != 0 ? GgmlType::kF16 : type;
}

class Planner {
 public:
  explicit Planner(GgmlType asked) : asked_(asked) {}

  void add_vector(std::string name, std::vector<float> values) {
    GgufTensorOut out;
    out.name = std::move(name);
    out.dims = {static_cast<int64_t>(values.size())};
    out.type = static_cast<uint32_t>(GgmlType::kF32);
    out.bytes = values.size() * sizeof(float);
    out.values = std::move(values);
    plan_.tensors.push_back(std::move(out));
  }

  void add_raw(const model::GgufTensor& tensor) {
    GgufTensorOut out;
    out.name = std::string(tensor.name);
    out.dims = dims_of(tensor);
    out.type = tensor.type;
    out.bytes = tensor.data.size();
    out.raw = tensor.data;
    plan_.tensors.push_back(std::move(out));
  }

  // `dims` may be empty for the rows of all parts times their depth.
  void add_matrix(std::string name, Readers parts, int64_t head_dim, std::vector<int64_t> dims = {}) {
    GgufTensorOut out;
    int64_t rows = 0;
    for (const auto& part : parts) rows += part->rows();
    const int64_t depth = parts.front()->depth();
    const GgmlType type = stays_float(name) ? GgmlType::kF32 : type_of(name, depth, asked_);
    if (!stays_float(name) && depth % block_elements(asked_) != 0) {
      ++plan_.narrow;
      plan_.narrow_type = type;
    }
    out.name = std::move(name);
    out.dims = dims.empty() ? std::vector<int64_t>{depth, rows} : std::move(dims);
    out.type = static_cast<uint32_t>(type);
    out.bytes = row_bytes(type, depth) * static_cast<uint64_t>(rows);
    out.parts = std::move(parts);
    out.interleaved_head_dim = head_dim;
    plan_.tensors.push_back(std::move(out));
  }

  static std::vector<int64_t> dims_of(const model::GgufTensor& tensor) {
    std::vector<int64_t> dims;
    for (int d = 0; d < tensor.num_dims; ++d)
      dims.push_back(static_cast<int64_t>(tensor.dims[static_cast<size_t>(d)]));
    return dims;
  }

  GgmlType asked() const { return asked_; }
  GgufTensorPlan take() { return std::move(plan_); }

 private:
  GgmlType asked_;
  GgufTensorPlan plan_;
};

// A tensor of the file, of those that the model has: itself, or several that the format keeps as one.
struct Group {
  std::string name;
  std::vector<model::RequiredTensor> tensors;
};

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  PAGODA_CHECK(at != std::string::npos, "{} in {}", from, name);
  return name.replace(at, from.size(), to);
}

// The model's name for what the file keeps as one: "mlp.experts.3.up_proj" is part of "mlp.experts.up_proj".
std::string fused_name(const model::ModelConfig& config, const std::string& name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  if (const size_t at = name.find(kExperts); at != std::string::npos) {
    const size_t number = at + kExperts.size();
    return name.substr(0, number) + name.substr(name.find('.', number) + 1);
  }
  if (config.architecture == Architecture::kPhi3 || config.architecture == Architecture::kGpt2) {
    for (const std::string_view part : {"q_proj", "k_proj", "v_proj"}) {
      const std::string stem = "self_attn." + std::string(part);
      if (name.find(stem) != std::string::npos) return replaced(name, stem, "self_attn.qkv_proj");
    }
  }
  if (config.architecture == Architecture::kPhi3) {
    for (const std::string_view stem : {"mlp.gate_proj", "mlp.up_proj"}) {
      if (name.find(stem) != std::string::npos) return replaced(name, stem, "mlp.gate_up_proj");
    }
  }
  return name;
}

std::vector<Group> groups_of(const model::ModelConfig& config) {
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> places;
  for (const model::RequiredTensor& tensor : model::required_tensors(config)) {
    const std::string fused = fused_name(config, tensor.name);
    const auto [place, is_new] = places.emplace(fused, groups.size());
    if (is_new) groups.push_back({model::gguf_tensor_name(fused, config.architecture), {}});
    groups[place->second].tensors.push_back(tensor);
  }
  return groups;
}

int64_t head_dim_to_interleave(const model::ModelConfig& config, std::string_view name) {
  const bool q_or_k =
      name.find(".attn_q.") != std::string_view::npos || name.find(".attn_k.") != std::string_view::npos;
  return q_or_k && interleaves_heads(config) ? config.head_dim : 0;
}

Result<std::vector<float>> vector_of(const model::Checkpoint& checkpoint, const Group& group) {
  std::vector<float> all;
  for (const model::RequiredTensor& tensor : group.tensors) {
    const auto values = PAGODA_TRY(checkpoint.tensors->vector(tensor.name, tensor.rows));
    all.insert(all.end(), values.begin(), values.end());
  }
  // Gemma's folders hold w where GGUF files and the formula have 1 + w.
  if (checkpoint.config.norm_weight_plus_one && group.name.ends_with("norm.weight")) {
    for (float& value : all) value += 1.0f;
  }
  const int64_t head_dim = head_dim_to_interleave(checkpoint.config, group.name);
  if (head_dim == 0) return all;
  std::vector<float> stored(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    stored[static_cast<size_t>(model::stored_row(static_cast<int64_t>(i), head_dim))] = all[i];
  }
  return stored;
}

Result<void> add_group(const model::Checkpoint& checkpoint, const Group& group, Planner& planner) {
  const model::ModelConfig& config = checkpoint.config;
  if (group.tensors.front().depth == 0) {
    planner.add_vector(group.name, PAGODA_TRY(vector_of(checkpoint, group)));
    return {};
  }
  Readers parts;
  for (const model::RequiredTensor& tensor : group.tensors) {
    parts.push_back(PAGODA_TRY(checkpoint.tensors->matrix(tensor.name, tensor.rows, tensor.depth)));
  }
  std::vector<int64_t> dims;
  if (group.name.find("_exps.") != std::string::npos) {
    const model::RequiredTensor& first = group.tensors.front();
    dims = {first.depth, first.rows, static_cast<int64_t>(parts.size())};
  }
  planner.add_matrix(group.name, std::move(parts), head_dim_to_interleave(config, group.name),
                     std::move(dims));
  return {};
}

bool is_matrix(const model::GgufTensor& tensor) {
  return tensor.num_dims >= 2 && tensor.dims[1] > 1 && tensor.name.ends_with(".weight") &&
         tensor.name.find("norm") == std::string_view::npos && !stays_float(tensor.name);
}

}  // namespace

Result<GgufTensorPlan> plan_folder(const model::Checkpoint& checkpoint, GgmlType type) {
  const model::ModelConfig& config = checkpoint.config;
  Planner planner(type);
  for (const Group& group : groups_of(config)) {
    PAGODA_CHECK(!group.name.empty(), "no name for {}", group.tensors.front().name);
    PAGODA_TRY(add_group(checkpoint, group, planner));
  }
  const model::RopeConfig& rope = config.rope;
  if (rope.scaling == model::RopeConfig::Scaling::kLlama3) {
    planner.add_vector("rope_freqs.weight", llama3_factors(config));
  } else if (rope.scaling == model::RopeConfig::Scaling::kLongRope) {
    planner.add_vector("rope_factors_long.weight", rope.long_factors);
    planner.add_vector("rope_factors_short.weight", rope.short_factors);
  }
  return planner.take();
}

Result<GgufTensorPlan> plan_gguf(std::vector<std::shared_ptr<const model::GgufFile>> files,
                                 Architecture architecture, GgmlType type) {
  // Without the heads' dimension it leaves rows in the order in which they are stored.
  const auto source = PAGODA_TRY(model::GgufTensorSource::create(files, architecture));
  Planner planner(type);
  for (const auto& file : files) {
    for (const model::GgufTensor& tensor : file->tensors()) {
      if (!is_matrix(tensor)) {
        planner.add_raw(tensor);
        continue;
      }
      const auto depth = static_cast<int64_t>(tensor.dims[0]);
      const auto rows = static_cast<int64_t>(tensor.dims[1] * tensor.dims[2] * tensor.dims[3]);
      const GgmlType to = type_of(tensor.name, depth, type);
      // A wider type than the one asked for adds nothing to what is narrower already.
      const bool stays =
          to != type && tensor.data.size() <= row_bytes(to, depth) * static_cast<uint64_t>(rows);
      if (stays || tensor.type == static_cast<uint32_t>(to)) {
        planner.add_raw(tensor);
        continue;
      }
      const std::string name = model::hf_tensor_name(tensor.name, architecture);
      Readers parts;
      parts.push_back(PAGODA_TRY(source->matrix(name, rows, depth)));
      planner.add_matrix(std::string(tensor.name), std::move(parts), 0, Planner::dims_of(tensor));
    }
  }
  GgufTensorPlan plan = planner.take();
  plan.files = std::move(files);
  return plan;
}

}  // namespace pagoda::quantize
