#include "model/loader/gguf_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/check.h"
#include "model/loader/file_error.h"
#include "model/loader/float_matrix.h"
#include "model/loader/gguf_blocks.h"

namespace pagoda::model {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 4> kTopNames = {{{"token_embd", "model.embed_tokens"},
                                                {"position_embd", "model.embed_positions"},
                                                {"output_norm", "model.norm"},
                                                {"output", "lm_head"}}};

constexpr std::array<NamePair, 16> kLayerNames = {{{"attn_norm", "input_layernorm"},
                                                   {"ffn_norm", "post_attention_layernorm"},
                                                   {"attn_q", "self_attn.q_proj"},
                                                   {"attn_k", "self_attn.k_proj"},
                                                   {"attn_v", "self_attn.v_proj"},
                                                   {"attn_output", "self_attn.o_proj"},
                                                   {"attn_q_norm", "self_attn.q_norm"},
                                                   {"attn_k_norm", "self_attn.k_norm"},
                                                   {"ffn_gate", "mlp.gate_proj"},
                                                   {"ffn_up", "mlp.up_proj"},
                                                   {"ffn_down", "mlp.down_proj"},
                                                   // Several as one; loader/hf_names.h takes them apart.
                                                   {"attn_qkv", "self_attn.qkv_proj"},
                                                   {"ffn_gate_inp", "mlp.gate"},
                                                   {"ffn_gate_exps", "mlp.experts.gate_proj"},
                                                   {"ffn_up_exps", "mlp.experts.up_proj"},
                                                   {"ffn_down_exps", "mlp.experts.down_proj"}}};

// Gemma has four norms a layer, and its names for them shift.
constexpr std::array<NamePair, 3> kGemmaLayerNames = {{{"ffn_norm", "pre_feedforward_layernorm"},
                                                       {"post_attention_norm", "post_attention_layernorm"},
                                                       {"post_ffw_norm", "post_feedforward_layernorm"}}};

template <size_t N>
std::string_view lookup(const std::array<NamePair, N>& names, std::string_view key) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const NamePair& pair) { return pair.first == key; });
  return found == names.end() ? std::string_view() : found->second;
}

template <size_t N>
std::string_view lookup_back(const std::array<NamePair, N>& names, std::string_view name) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const NamePair& pair) { return pair.second == name; });
  return found == names.end() ? std::string_view() : found->first;
}

// One matrix of quantised blocks.
class BlockMatrix final : public MatrixReader {
 public:
  BlockMatrix(const BlockFormat& format, MatrixPlace place) : format_(format), place_(std::move(place)) {
    blocks_per_row_ = place_.depth / format.block_elements;
  }

  int64_t rows() const override { return place_.rows; }
  int64_t depth() const override { return place_.depth; }
  CodeScheme scheme() const override { return format_.scheme; }
  std::string describe() const override { return place_.description; }

  Range code_range(int64_t first, int64_t count) const override {
    Range all;
    for (int64_t r = first; r < first + count; ++r) {
      const Range range = format_.range(row(r), blocks_per_row_);
      all.max_scale = larger(all.max_scale, range.max_scale);
      all.max_offset = larger(all.max_offset, range.max_offset);
    }
    return all;
  }

  void read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales,
                  float* offsets) const override {
    const int64_t groups = blocks_per_row_ * format_.groups_per_block();
    for (int64_t r = 0; r < count; ++r) {
      const uint8_t* const blocks = row(first + r);
      format_.read_codes(blocks, blocks_per_row_, codes + r * place_.depth);
      format_.read_scales(blocks, blocks_per_row_, scales + r * groups,
                          format_.scheme.has_offsets ? offsets + r * groups : nullptr);
    }
  }

  void read_values(int64_t first, int64_t count, float* values) const override {
    std::array<uint8_t, 256> codes;
    std::array<float, 16> scales{}, offsets{};
    const auto groups = static_cast<size_t>(format_.groups_per_block());
    const auto group_size = static_cast<size_t>(format_.scheme.group_size);
    for (int64_t r = first; r < first + count; ++r) {
      const uint8_t* block = row(r);
      for (int64_t b = 0; b < blocks_per_row_; ++b, block += format_.block_bytes) {
        format_.read_codes(block, 1, codes.data());
        format_.read_scales(block, 1, scales.data(), offsets.data());
        for (size_t g = 0; g < groups; ++g) {
          for (size_t k = g * group_size; k < (g + 1) * group_size; ++k) {
            float value = scales[g] * static_cast<float>(codes[k] - format_.scheme.zero_point);
            if (format_.scheme.has_offsets) value += offsets[g];
            *values++ = value;
          }
        }
      }
    }
  }

  void release_pages() const override { MmapFile::release(place_.data); }

 private:
  // NaN wins, so that it is not lost among the others.
  static float larger(float a, float b) { return b > a || std::isnan(b) ? (std::isnan(a) ? a : b) : a; }

  const uint8_t* row(int64_t index) const {
    PAGODA_CHECK(index >= 0 && index < place_.rows, "row {} of {}", index, place_.rows);
    const int64_t stored = stored_row(index, place_.interleaved_head_dim);
    return place_.data.data() + stored * blocks_per_row_ * format_.block_bytes;
  }

  const BlockFormat& format_;
  MatrixPlace place_;
  int64_t blocks_per_row_ = 0;
};

// "x-00001-of-00003.gguf" -> "x"; empty when the name does not say that it is file `number` of `count`.
std::string split_prefix(const std::string& path, int64_t number, int64_t count) {
  const std::string suffix = fmt::format("-{:05}-of-{:05}.gguf", number, count);
  return path.ends_with(suffix) ? path.substr(0, path.size() - suffix.size()) : std::string();
}

Result<void> check_part(const GgufFile& part, int64_t index, int64_t count) {
  const auto part_count = PAGODA_TRY(part.integer("split.count"));
  const auto part_index = PAGODA_TRY(part.integer("split.no"));
  if (part_count.value_or(-1) != count || part_index.value_or(-1) != index) {
    return corrupt_file(part.path(),
                        "says it is part {} of {} (split.no, split.count), its name says {} of {}",
                        part_index.value_or(-1), part_count.value_or(-1), index, count);
  }
  return {};
}

}  // namespace

std::string hf_tensor_name(std::string_view gguf_name, Architecture architecture) {
  std::string_view rest = gguf_name;
  std::string prefix;
  if (rest.starts_with("blk.")) {
    rest.remove_prefix(4);
    const size_t dot = rest.find('.');
    const std::string_view layer = rest.substr(0, dot);
    const bool is_number = !layer.empty() && layer.find_first_not_of("0123456789") == std::string_view::npos;
    // A number with a leading zero would give a second name to the same layer.
    if (dot == std::string_view::npos || !is_number || (layer.size() > 1 && layer[0] == '0')) {
      return std::string(gguf_name);
    }
    prefix = "model.layers." + std::string(layer) + ".";
    rest.remove_prefix(dot + 1);
  }
  const size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) return std::string(gguf_name);
  const std::string_view stem = rest.substr(0, dot), kind = rest.substr(dot);
  std::string_view name;
  if (prefix.empty()) {
    name = lookup(kTopNames, stem);
  } else {
    if (architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3) {
      name = lookup(kGemmaLayerNames, stem);
    } else if (architecture == Architecture::kPhi3 && stem == "ffn_up") {
      name = "mlp.gate_up_proj";
    }
    if (name.empty()) name = lookup(kLayerNames, stem);
  }
  if (name.empty()) return std::string(gguf_name);
  return prefix + std::string(name) + std::string(kind);
}

std::string gguf_tensor_name(std::string_view hf_name, Architecture architecture) {
  constexpr std::string_view kLayers = "model.layers.";
  std::string_view rest = hf_name;
  std::string prefix;
  if (rest.starts_with(kLayers)) {
    rest.remove_prefix(kLayers.size());
    const size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return {};
    prefix = "blk." + std::string(rest.substr(0, dot + 1));
    rest.remove_prefix(dot + 1);
  }
  const size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view stem = rest.substr(0, dot), kind = rest.substr(dot);
  std::string_view name;
  if (prefix.empty()) {
    name = lookup_back(kTopNames, stem);
  } else {
    if (architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3) {
      name = lookup_back(kGemmaLayerNames, stem);
    } else if (architecture == Architecture::kPhi3 && stem == "mlp.gate_up_proj") {
      name = "ffn_up";
    }
    if (name.empty()) name = lookup_back(kLayerNames, stem);
  }
  return name.empty() ? std::string() : prefix + std::string(name) + std::string(kind);
}

Result<std::vector<std::shared_ptr<const GgufFile>>> open_gguf_set(const std::string& path) {
  std::vector<std::shared_ptr<const GgufFile>> files;
  files.push_back(std::make_shared<const GgufFile>(PAGODA_TRY(GgufFile::open(path))));
  const int64_t count = PAGODA_TRY(files[0]->integer("split.count")).value_or(1);
  if (count == 1 || (count == 0 && files[0]->find("split.no") == nullptr)) return files;
  const int64_t index = PAGODA_TRY(files[0]->integer("split.no")).value_or(0);
  if (count < 1 || count > 65535 || index < 0 || index >= count) {
    return corrupt_file(path, "split.no {} and split.count {} are no part of a set", index, count);
  }
  if (index != 0) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("{} is part {} of a set of {} files; name the first one", path, index + 1, count));
  }
  const std::string prefix = split_prefix(path, 1, count);
  if (prefix.empty()) {
    return corrupt_file(path, "is the first of {} files, but is not named like '...-00001-of-{:05}.gguf'",
                        count, count);
  }
  for (int64_t i = 1; i < count; ++i) {
    const std::string part_path = fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i + 1, count);
    std::error_code ignored;
    if (!std::filesystem::exists(part_path, ignored)) {
      return make_error(ErrorKind::kIo,
                        fmt::format("{}: part {} of {} is missing: {}", path, i + 1, count, part_path));
    }
    files.push_back(std::make_shared<const GgufFile>(PAGODA_TRY(GgufFile::open(part_path))));
    PAGODA_TRY(check_part(*files.back(), i, count));
  }
  size_t total = 0;
  for (const auto& file : files) total += file->tensors().size();
  const auto expected = PAGODA_TRY(files[0]->integer("split.tensors.count"));
  if (expected && *expected != static_cast<int64_t>(total)) {
    return corrupt_file(path, "split.tensors.count is {}, but the {} files hold {} tensors", *expected, count,
                        total);
  }
  return files;
}

Result<std::unique_ptr<GgufTensorSource>> GgufTensorSource::create(
    std::vector<std::shared_ptr<const GgufFile>> files, Architecture architecture) {
  PAGODA_CHECK(!files.empty());
  std::unique_ptr<GgufTensorSource> source(new GgufTensorSource());
  source->first_path_ = files[0]->path();
  for (const auto& file : files) {
    for (const GgufTensor& tensor : file->tensors()) {
      std::string name = hf_tensor_name(tensor.name, architecture);
      if (!source->tensors_.emplace(name, Place{file, &tensor}).second) {
        return corrupt_file(file->path(), "tensor {} at offset {} appears twice in the set",
                            shown(tensor.name), tensor.info_offset);
      }
      source->order_.push_back(std::move(name));
    }
  }
  return source;
}

std::vector<int64_t> GgufTensorSource::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return {};
  const GgufTensor& tensor = *found->second.tensor;
  std::vector<int64_t> shape;
  for (int d = tensor.num_dims; d-- > 0;)
    shape.push_back(static_cast<int64_t>(tensor.dims[static_cast<size_t>(d)]));
  return shape;
}

std::vector<TensorInfo> GgufTensorSource::list() const {
  std::vector<TensorInfo> infos;
  for (const std::string& name : order_) {
    const GgufTensor& tensor = *tensors_.at(name).tensor;
    infos.push_back({name, shape(name), std::string(find_ggml_type(tensor.type)->name), tensor.data.size()});
  }
  return infos;
}

Result<GgufTensorSource::Place> GgufTensorSource::find(const std::string& name,
                                                       const std::vector<int64_t>& expected) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return corrupt_file(first_path_, "tensor {} is missing", shown(name));
  const Place& place = found->second;
  std::vector<int64_t> actual = shape(name);
  while (actual.size() > expected.size() && actual.front() == 1) actual.erase(actual.begin());
  // Experts, one after the other: [experts, rows, depth] as one tall matrix.
  if (actual.size() == 3 && expected.size() == 2 && name.find(".mlp.experts.") != std::string::npos) {
    actual = {actual[0] * actual[1], actual[2]};
  }
  if (actual != expected) {
    return corrupt_file(place.file->path(), "tensor {} ({}) at offset {} has shape [{}] instead of [{}]",
                        shown(place.tensor->name), name, place.tensor->info_offset, number_list(actual),
                        number_list(expected));
  }
  return place;
}

int64_t GgufTensorSource::interleaved(std::string_view name) const {
  const bool is_q_or_k = name.find(".self_attn.q_proj.") != std::string_view::npos ||
                         name.find(".self_attn.k_proj.") != std::string_view::npos;
  return is_q_or_k ? interleaved_head_dim_ : 0;
}

Result<std::unique_ptr<MatrixReader>> GgufTensorSource::matrix(const std::string& name, int64_t rows,
                                                               int64_t depth) const {
  const Place place = PAGODA_TRY(find(name, {rows, depth}));
  const GgufTensor& tensor = *place.tensor;
  MatrixPlace where{
      place.file,
      tensor.data,
      rows,
      depth,
      interleaved(name),
      fmt::format("{}: tensor {} at offset {}", place.file->path(), shown(tensor.name), tensor.info_offset)};
  if (where.interleaved_head_dim != 0 && rows % where.interleaved_head_dim != 0) {
    return corrupt_file(place.file->path(), "tensor {} has {} rows, which are not whole heads of {}",
                        shown(tensor.name), rows, where.interleaved_head_dim);
  }
  if (const BlockFormat* const format = find_block_format(tensor.type)) {
    return std::unique_ptr<MatrixReader>(std::make_unique<BlockMatrix>(*format, std::move(where)));
  }
  if (const auto type = float_dtype(find_ggml_type(tensor.type)->name)) {
    return std::unique_ptr<MatrixReader>(std::make_unique<FloatMatrix>(*type, std::move(where)));
  }
  return unsupported_model(place.file->path(), "tensor {} at offset {} has type {}, which can't be run",
                           shown(tensor.name), tensor.info_offset, find_ggml_type(tensor.type)->name);
}

Result<std::vector<float>> GgufTensorSource::vector(const std::string& name, int64_t size) const {
  const Place place = PAGODA_TRY(find(name, {size}));
  const GgufTensor& tensor = *place.tensor;
  const auto type = float_dtype(find_ggml_type(tensor.type)->name);
  if (!type) {
    return unsupported_model(place.file->path(),
                             "tensor {} at offset {} has type {}; vectors must be F32, F16 or BF16",
                             shown(tensor.name), tensor.info_offset, find_ggml_type(tensor.type)->name);
  }
  std::vector<float> stored(static_cast<size_t>(size));
  read_floats(*type, tensor.data.data(), size, stored.data());
  PAGODA_TRY(check_finite(stored, place.file->path(), tensor.name, tensor.info_offset));
  const int64_t head_dim = interleaved(name);
  if (head_dim == 0 || size % head_dim != 0) return stored;
  std::vector<float> values(stored.size());
  for (int64_t i = 0; i < size; ++i)
    values[static_cast<size_t>(i)] = stored[static_cast<size_t>(stored_row(i, head_dim))];
  return values;
}

}  // namespace pagoda::model
