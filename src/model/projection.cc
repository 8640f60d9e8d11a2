#include "model/projection.h"

#include <algorithm>
#include <array>

namespace pagoda::model {
namespace {

using kernels::ActivationForm;

Result<std::vector<float>> load_bias(const TensorSource& tensors,
                                     std::span<const Projection::Section> sections) {
  if (std::none_of(sections.begin(), sections.end(), [](const auto& s) { return s.has_bias; })) {
    return std::vector<float>{};
  }
  std::vector<float> bias;
  for (const auto& section : sections) {
    if (section.has_bias) {
      const auto part = PAGODA_TRY(tensors.vector(section.name + ".bias", section.rows));
      bias.insert(bias.end(), part.begin(), part.end());
    } else {
      bias.resize(bias.size() + static_cast<size_t>(section.rows), 0.0f);
    }
  }
  return bias;
}

}  // namespace

Result<Projection> Projection::load(const TensorSource& tensors, std::span<const Section> sections,
                                    int64_t depth, WeightPacker& packer, WeightPrecision precision) {
  Projection projection;
  projection.depth_ = depth;
  projection.wide_ = kernels::WideGroups::all(depth);
  MatrixReaders readers;
  for (const auto& section : sections) {
    readers.push_back(PAGODA_TRY(tensors.matrix(section.name + ".weight", section.rows, depth)));
  }
  std::vector<const MatrixReader*> all;
  for (const auto& reader : readers) all.push_back(reader.get());
  // One weight of all sections if the formats agree, else one weight each.
  const size_t per_weight = can_pack_together(all, precision) ? sections.size() : 1;
  projection.weights_.resize(sections.size() / per_weight);
  for (size_t first = 0; first < sections.size(); first += per_weight) {
    int64_t column = projection.width_;
    projection.columns_.push_back(column);
    MatrixReaders parts;
    for (size_t s = first; s < first + per_weight; ++s) {
      projection.offsets_.push_back(column);
      column += sections[s].rows;
      parts.push_back(std::move(readers[s]));
    }
    const std::span<const int32_t> order = all[first]->column_order();
    // The packer keeps the address: that of a vector's element, which moving the projection leaves alone.
    const auto spec = packer.add(std::move(parts), projection.weights_[first / per_weight], precision);
    projection.width_ += spec.padded_rows();
    projection.input_of_.push_back(projection.add_input(kernels::activation_form(spec.layout), order));
    projection.biases_.push_back(PAGODA_TRY(load_bias(tensors, sections.subspan(first, per_weight))));
  }
  return projection;
}

size_t Projection::add_input(ActivationForm form, std::span<const int32_t> order) {
  if (form != ActivationForm::kCoded) order = {};
  const auto same = [&](const Input& input) {
    const auto known = input.order ? std::span<const int32_t>(*input.order) : std::span<const int32_t>();
    return input.form == form && std::ranges::equal(known, order);
  };
  const auto found = std::find_if(inputs_.begin(), inputs_.end(), same);
  if (found != inputs_.end()) return static_cast<size_t>(found - inputs_.begin());
  inputs_.push_back({form, nullptr});
  if (!order.empty()) {
    inputs_.back().order = std::make_unique<const kernels::ColumnOrder>(order.begin(), order.end());
  }
  return inputs_.size() - 1;
}

kernels::PanelRows Projection::panels(size_t section) const {
  const auto after = std::upper_bound(columns_.begin(), columns_.end(), offsets_[section]);
  const auto index = static_cast<size_t>(after - columns_.begin() - 1);
  const int64_t first = offsets_[section] - columns_[index];
  if (first % kPanelRows != 0) return {};
  return {&weights_[index], first / kPanelRows,
          biases_[index].empty() ? nullptr : biases_[index].data() + first};
}

void Projection::run(const kernels::Activations& x, float* out, int64_t out_stride, bool accumulate,
                     ComputePool& pool) const noexcept {
  // No projection has more than three sections, so no more weights.
  std::array<kernels::MatmulJob, 3> jobs;
  size_t count = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Input& input = inputs_[input_of_[i]];
    if (input.form != x.form || input.order.get() != x.order) continue;
    kernels::MatmulJob& job = jobs[count++];
    job.weight = &weights_[i];
    job.bias = biases_[i].empty() ? nullptr : biases_[i].data();
    job.out = out + columns_[i];
    job.out_stride = out_stride;
    job.accumulate = accumulate;
  }
  kernels::matmul(x, std::span(jobs).first(count), pool);
}

}  // namespace pagoda::model
