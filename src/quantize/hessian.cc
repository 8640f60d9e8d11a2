#include "quantize/hessian.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "base/check.h"
#include "kernels/matmul.h"
#include "tensor/half.h"
#include "tensor/packed_weight.h"

namespace pagoda::quantize {
namespace {

// Columns of the result that are computed at once, for the rows above them alone: the matrix is symmetric.
constexpr int64_t kBlock = 512;

// The transpose of a batch of inputs: channels [depth, rows], rows padded with zeros.
struct Channels {
  Channels(const kernels::Activations& x, int64_t depth, ComputePool& pool);
  int64_t stride;
  AlignedBuffer halves;
  PackedWeight packed;
};

PackedWeightSpec channel_spec(int64_t channels, int64_t rows) {
  PackedWeightSpec spec;
  spec.layout = WeightLayout::kBF16;
  spec.rows = channels;
  spec.depth = rows;
  return spec;
}

Channels::Channels(const kernels::Activations& x, int64_t depth, ComputePool& pool)
    : stride(round_up(x.rows, kDepthMultiple)),
      halves(static_cast<size_t>(round_up(depth, kPanelRows) * stride) * sizeof(uint16_t)),
      packed(channel_spec(depth, x.rows)) {
  auto* const all = halves.as<uint16_t>();
  pool.run(static_cast<int>(packed.num_panels()), [&](int panel, int) {
    const int64_t first = int64_t{panel} * kPanelRows, count = std::min<int64_t>(kPanelRows, depth - first);
    std::vector<float> values(static_cast<size_t>(count * x.rows));
    for (int64_t row = 0; row < x.rows; ++row) {
      const uint16_t* const from = x.bf16 + row * x.depth + first;
      for (int64_t c = 0; c < count; ++c) {
        all[(first + c) * stride + row] = from[c];
        values[static_cast<size_t>(c * x.rows + row)] = bf16_to_f32(from[c]);
      }
    }
    PanelSource source;
    source.num_rows = static_cast<int>(count);
    source.values = values.data();
    source.value_stride = x.rows;
    packed.pack_panel(panel, source);
  });
}

// Panels [first, first + count) as a weight of its own.
PackedWeight panels(const PackedWeight& weight, int64_t first, int64_t count) {
  PackedWeightSpec spec = weight.spec();
  spec.rows = std::min(weight.rows() - first * kPanelRows, count * kPanelRows);
  // `weight` outlives the result.
  return {spec, std::shared_ptr<const uint8_t>(std::shared_ptr<void>(), weight.panel(first))};
}

}  // namespace

InputStatistics::InputStatistics(int64_t depth)
    : depth_(depth), sums_(depth, depth), magnitudes_(static_cast<size_t>(depth)) {}

void InputStatistics::add(const kernels::Activations& x, ComputePool& pool) {
  PAGODA_CHECK(x.form == kernels::ActivationForm::kBF16 && x.depth >= depth_, "inputs of another kind");
  const Channels channels(x, depth_, pool);
  kernels::Activations transposed;
  transposed.form = kernels::ActivationForm::kBF16;
  transposed.rows = depth_;
  transposed.depth = channels.stride;
  transposed.bf16 = channels.halves.as<uint16_t>();
  for (int64_t first = 0; first < depth_; first += kBlock) {
    const int64_t size = std::min(kBlock, depth_ - first);
    const PackedWeight block =
        panels(channels.packed, first / kPanelRows, (size + kPanelRows - 1) / kPanelRows);
    kernels::MatmulJob job;
    job.weight = &block;
    job.out = sums_.row(0) + first;
    job.out_stride = sums_.stride();
    job.accumulate = true;
    kernels::matmul(transposed.slice(0, first + size), std::span(&job, 1), pool);
  }
  pool.run(static_cast<int>((depth_ + kPanelRows - 1) / kPanelRows), [&](int panel, int) {
    const int64_t end = std::min<int64_t>(depth_, (int64_t{panel} + 1) * kPanelRows);
    for (int64_t c = int64_t{panel} * kPanelRows; c < end; ++c) {
      float sum = 0;
      for (int64_t row = 0; row < x.rows; ++row) {
        sum += std::fabs(bf16_to_f32(transposed.bf16[c * channels.stride + row]));
      }
      magnitudes_[static_cast<size_t>(c)] += double{sum};
    }
  });
  count_ += x.rows;
}

Dense InputStatistics::hessian() const {
  Dense h(depth_, depth_);
  const float factor = 2.0f / static_cast<float>(std::max<int64_t>(1, count_));
  for (int64_t i = 0; i < depth_; ++i) {
    for (int64_t j = i; j < depth_; ++j) h.at(i, j) = h.at(j, i) = factor * sums_.at(i, j);
  }
  return h;
}

std::vector<float> InputStatistics::mean_magnitudes() const {
  std::vector<float> means;
  for (const double sum : magnitudes_) {
    means.push_back(static_cast<float>(sum / static_cast<double>(std::max<int64_t>(1, count_))));
  }
  return means;
}

}  // namespace pagoda::quantize
