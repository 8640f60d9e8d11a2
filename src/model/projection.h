// Packed matrices that multiply the same input.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/gated_matmul.h"
#include "kernels/matmul.h"
#include "model/pack.h"
#include "model/tensor_source.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {

// One or more matrices that multiply the same input (q, k, v; gate, up). They are packed as one weight where
// their formats allow it and run as one parallel section in any case. Section s of the output starts at
// column offset(s).
class Projection {
 public:
  struct Section {
    std::string name;  // tensor name without ".weight"; "<name>.bias" is read when has_bias
    int64_t rows = 0;
    bool has_bias = false;
  };

  // Registers the matrices with `packer`; the projection can run once that has packed them.
  static Result<Projection> load(const TensorSource& tensors, std::span<const Section> sections,
                                 int64_t depth, WeightPacker& packer) {
    return load(tensors, sections, depth, packer, packer.precision());
  }
  static Result<Projection> load(const TensorSource& tensors, std::span<const Section> sections,
                                 int64_t depth, WeightPacker& packer, WeightPrecision precision);

  int64_t offset(size_t section) const { return offsets_[section]; }
  int64_t width() const { return width_; }  // floats of one output row; a multiple of 32
  int64_t depth() const { return depth_; }
  // Of weights()[index] in the output.
  int64_t column(size_t index) const { return columns_[index]; }
  std::span<const PackedWeight> weights() const { return weights_; }
  // How many distinct inputs the weights multiply with, in form or order of columns; nearly always one.
  size_t num_inputs() const { return inputs_.size(); }
  // Valid while the projection stays where it is. The only one of a projection with one section.
  kernels::ActivationSpec input(size_t index = 0) const {
    return {inputs_[index].form, &wide_, inputs_[index].order.get()};
  }
  // Which groups of a coded input are wide; all of them after load().
  void set_wide(kernels::WideGroups wide) { wide_ = std::move(wide); }

  // Where the rows of a section are; no weight if they don't start with a panel.
  kernels::PanelRows panels(size_t section) const;

  // out (+)= x W^T + b for every weight that takes x's form and order. out rows are `out_stride` floats
  // apart.
  void run(const kernels::Activations& x, float* out, int64_t out_stride, bool accumulate,
           ComputePool& pool) const noexcept;

 private:
  struct Input {
    kernels::ActivationForm form = kernels::ActivationForm::kF32;
    std::unique_ptr<const kernels::ColumnOrder> order;  // null: the columns as they come
  };
  // The index of that input among inputs_, which gets it if it is new.
  size_t add_input(kernels::ActivationForm form, std::span<const int32_t> order);

  std::vector<PackedWeight> weights_;
  std::vector<std::vector<float>> biases_;  // parallel to weights_; empty = none
  std::vector<int64_t> columns_;            // parallel to weights_: first output column
  std::vector<int64_t> offsets_;            // per section
  std::vector<Input> inputs_;
  std::vector<size_t> input_of_;  // parallel to weights_: index of inputs_
  kernels::WideGroups wide_;
  int64_t width_ = 0, depth_ = 0;
};

}  // namespace pagoda::model
