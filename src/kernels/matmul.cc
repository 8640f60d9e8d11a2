#include "kernels/matmul.h"

#include <cstring>

#include "base/check.h"
#include "kernels/chunks.h"
#include "kernels/dispatch.h"
#include "kernels/matmul_internal.h"

namespace pagoda::kernels {
namespace {

using PanelFunction = void (*)(const MatmulPanel&);

PanelFunction panel_function(WeightLayout layout) {
  const MatmulBody& body = pick(scalar::matmul_body, avx2::matmul_body, avx512::matmul_body);
  switch (layout) {
    case WeightLayout::kF32:
      return body.f32;
    case WeightLayout::kBF16:
      return body.bf16;
    case WeightLayout::kW8:
      return body.w8;
    case WeightLayout::kW6:
      return body.w6;
    case WeightLayout::kW5:
      return body.w5;
    case WeightLayout::kW4:
      break;
  }
  return body.w4;
}

MatmulPanel panel_of(const Activations& x, const MatmulJob& job) {
  const PackedWeightSpec& spec = job.weight->spec();
  MatmulPanel panel = {};
  panel.depth = x.depth;
  panel.group_size = spec.group_size;
  panel.has_offsets = spec.has_offsets;
  panel.zero_point = spec.zero_point;
  panel.multiplier = spec.scale_multiplier;
  panel.offset_ratio = spec.offset_multiplier / spec.scale_multiplier;
  panel.rows = x.rows;
  panel.f32 = x.f32;
  panel.bf16 = x.bf16;
  panel.codes = x.codes;
  if (x.wide != nullptr) {
    panel.wide = x.wide->flags();
    panel.low_codes = x.low_codes;
    panel.low_depth = x.wide->count() * kActivationGroup;
  }
  panel.scales = x.scales;
  panel.sums = x.sums;
  panel.scaled_sums = x.scaled_sums;
  panel.out_stride = job.out_stride;
  panel.accumulate = job.accumulate;
  return panel;
}

}  // namespace

void check_job(const Activations& x, const MatmulJob& job) {
  PAGODA_CHECK(job.weight != nullptr && job.out != nullptr);
  const PackedWeight& w = *job.weight;
  PAGODA_CHECK(x.form == activation_form(w.layout()), "activations of form {} for weights of layout {}",
               static_cast<int>(x.form), weight_layout_name(w.layout()));
  PAGODA_CHECK(x.depth == w.padded_depth(), "depth {} of the activations, {} of the weight", x.depth,
               w.padded_depth());
  PAGODA_CHECK(job.out_stride >= w.padded_rows() && job.out_stride % 16 == 0, "stride {} for {} rows",
               job.out_stride, w.rows());
  PAGODA_CHECK(reinterpret_cast<uintptr_t>(job.out) % 64 == 0, "out is not aligned to 64 bytes");
}

void run_panels(const Activations& x, const MatmulJob& job, int64_t begin, int64_t end) {
  const PackedWeight& w = *job.weight;
  const PanelFunction function = panel_function(w.layout());
  MatmulPanel panel = panel_of(x, job);
  for (int64_t index = begin; index < end; ++index) {
    const int64_t first = index * kPanelRows;
    alignas(64) float padded_bias[kPanelRows] = {};  // the last panel may have fewer rows than 32
    panel.bias = nullptr;
    if (job.bias != nullptr) {
      const bool whole = first + kPanelRows <= w.rows();
      if (!whole)
        std::memcpy(padded_bias, job.bias + first, static_cast<size_t>(w.rows() - first) * sizeof(float));
      panel.bias = whole ? job.bias + first : padded_bias;
    }
    panel.weights = w.panel(index);
    panel.out = job.out + first;
    function(panel);
  }
}

// Memory speed for few rows, arithmetic for many.
double panel_ns(const Activations& x, const PackedWeight& w) {
  const bool coded = x.form == ActivationForm::kCoded;
  double ops_per_ns = 2;
  if (current_isa() == Isa::kAvx512) ops_per_ns = coded ? 300 : x.form == ActivationForm::kBF16 ? 200 : 100;
  if (current_isa() == Isa::kAvx2) ops_per_ns = coded ? 150 : 60;
  const auto depth = static_cast<double>(x.depth + (coded ? x.wide->count() * kActivationGroup : 0));
  const double ops = 2.0 * kPanelRows * depth * static_cast<double>(x.rows);
  constexpr double kBytesPerNs = 25;  // DRAM, one core
  return std::max(ops / ops_per_ns, static_cast<double>(w.panel_bytes()) / kBytesPerNs);
}

void matmul(const Activations& x, std::span<const MatmulJob> jobs, ComputePool& pool) noexcept {
  if (x.rows == 0) return;
  int64_t num_panels = 0;
  double total_ns = 0;
  for (const MatmulJob& job : jobs) {
    check_job(x, job);
    num_panels += job.weight->num_panels();
    total_ns += static_cast<double>(job.weight->num_panels()) * panel_ns(x, *job.weight);
  }
  const ShrinkingChunks chunks(total_ns, num_panels, pool.num_threads());
  pool.run(chunks.count(), [&](int chunk, int) {
    // The panels of all jobs are numbered through; a chunk may cover the end of one job and the start of the
    // next.
    const auto [begin, end] = chunks.range(chunk);
    int64_t first = 0;
    for (const MatmulJob& job : jobs) {
      const int64_t count = job.weight->num_panels();
      const int64_t from = std::max<int64_t>(begin - first, 0), to = std::min(end - first, count);
      if (from < to) run_panels(x, job, from, to);
      first += count;
    }
  });
}

}  // namespace pagoda::kernels
