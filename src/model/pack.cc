#include "model/pack.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace pagoda::model {
namespace {

bool same_scheme(const CodeScheme& a, const CodeScheme& b) {
  if (a.bits != b.bits) return false;
  return a.bits == 0 ||
         (a.group_size == b.group_size && a.has_offsets == b.has_offsets && a.zero_point == b.zero_point);
}

// One thread's rows of one panel, unpacked.
struct PanelBuffer {
  std::vector<uint8_t> codes;
  std::vector<float> scales, offsets, values;
};

// Rows [first, first + count) of the stacked parts, in pieces that lie in one part each.
template <class Body>
void for_each_piece(std::span<const MatrixReader* const> parts, int64_t first, int64_t count, Body body) {
  int64_t part_start = 0;
  for (const MatrixReader* const part : parts) {
    const int64_t begin = std::max(first, part_start),
                  end = std::min(first + count, part_start + part->rows());
    if (begin < end) body(*part, begin - part_start, end - begin, begin - first);
    part_start += part->rows();
  }
}

// The largest exponent marks infinities and NaN; comparing bits lets the compiler vectorise the loop.
bool all_finite(std::span<const float> values) {
  uint32_t bad = 0;
  for (const float value : values) bad |= (std::bit_cast<uint32_t>(value) & 0x7f800000) == 0x7f800000 ? 1 : 0;
  return bad == 0;
}

class Packer {
 public:
  Packer(std::span<const MatrixReader* const> parts, PackedWeight& weight, ComputePool& pool)
      : parts_(parts), weight_(weight), pool_(pool), coded_(is_coded(weight.layout())) {
    groups_ = coded_ ? weight.padded_depth() / weight.spec().group_size : 0;
    const auto rows = static_cast<size_t>(kPanelRows), depth = static_cast<size_t>(weight.depth());
    buffers_.resize(static_cast<size_t>(pool.num_threads()));
    for (PanelBuffer& buffer : buffers_) {
      buffer.codes.resize(coded_ ? rows * depth : 0);
      buffer.values.resize(coded_ ? 0 : rows * depth);
      buffer.scales.resize(rows * static_cast<size_t>(groups_));
      buffer.offsets.resize(weight.spec().has_offsets ? buffer.scales.size() : 0);
    }
  }

  static bool is_coded(WeightLayout layout) {
    return layout == WeightLayout::kW4 || layout == WeightLayout::kW8;
  }

  // kCorruptFile naming the part that holds a value which is infinite or no number.
  Result<void> run() {
    pool_.run(static_cast<int>(weight_.num_panels()),
              [&](int panel, int worker) { pack_panel(panel, buffers_[static_cast<size_t>(worker)]); });
    if (const MatrixReader* const part = not_finite_.load(); part != nullptr) {
      return make_error(ErrorKind::kCorruptFile, part->describe() + " has a value that is no finite number");
    }
    return {};
  }

 private:
  void pack_panel(int64_t panel, PanelBuffer& buffer) {
    const int64_t first = panel * kPanelRows, depth = weight_.depth();
    PanelSource source;
    source.num_rows = static_cast<int>(std::min<int64_t>(kPanelRows, weight_.rows() - first));
    for_each_piece(parts_, first, source.num_rows,
                   [&](const MatrixReader& part, int64_t row, int64_t count, int64_t at) {
                     if (coded_) {
                       float* const offsets =
                           buffer.offsets.empty() ? nullptr : buffer.offsets.data() + at * groups_;
                       part.read_codes(row, count, buffer.codes.data() + at * depth,
                                       buffer.scales.data() + at * groups_, offsets);
                     } else {
                       float* const values = buffer.values.data() + at * depth;
                       part.read_values(row, count, values);
                       if (!all_finite(std::span(values, static_cast<size_t>(count * depth)))) {
                         not_finite_.store(&part);
                       }
                     }
                   });
    // The multipliers are powers of two: dividing by them rounds nothing.
    const float scale_factor = 1.0f / weight_.spec().scale_multiplier;
    const float offset_factor = 1.0f / weight_.spec().offset_multiplier;
    const size_t used = static_cast<size_t>(source.num_rows * groups_);
    for (float& scale : std::span(buffer.scales).first(used)) scale *= scale_factor;
    if (!buffer.offsets.empty()) {
      for (float& offset : std::span(buffer.offsets).first(used)) offset *= offset_factor;
    }
    source.codes = buffer.codes.data();
    source.code_stride = depth;
    source.scales = buffer.scales.data();
    source.offsets = buffer.offsets.data();
    source.values = buffer.values.data();
    source.value_stride = depth;
    weight_.pack_panel(panel, source);
  }

  std::span<const MatrixReader* const> parts_;
  PackedWeight& weight_;
  ComputePool& pool_;
  std::atomic<const MatrixReader*> not_finite_{nullptr};
  bool coded_;
  int64_t groups_ = 0;
  std::vector<PanelBuffer> buffers_;
};

// The range of all parts; kCorruptFile for a scale that is infinite or no number.
Result<MatrixReader::Range> range_of(std::span<const MatrixReader* const> parts, ComputePool& pool) {
  MatrixReader::Range all;
  for (const MatrixReader* const part : parts) {
    const int chunks = static_cast<int>(std::min<int64_t>(part->rows(), 4 * pool.num_threads()));
    std::vector<MatrixReader::Range> ranges(static_cast<size_t>(chunks));
    pool.run(chunks, [&](int chunk, int) {
      const ChunkRange rows = chunk_range(part->rows(), chunks, chunk);
      ranges[static_cast<size_t>(chunk)] = part->code_range(rows.begin, rows.end - rows.begin);
    });
    for (const MatrixReader::Range& range : ranges) {
      if (!std::isfinite(range.max_scale) || !std::isfinite(range.max_offset)) {
        return make_error(ErrorKind::kCorruptFile,
                          part->describe() + " has a scale or offset that is no finite number");
      }
      all.max_scale = std::max(all.max_scale, range.max_scale);
      all.max_offset = std::max(all.max_offset, range.max_offset);
    }
  }
  return all;
}

}  // namespace

WeightLayout packed_layout(const CodeScheme& scheme, WeightPrecision precision) {
  if (precision == WeightPrecision::kFloat32) return WeightLayout::kF32;
  if (scheme.bits == 0) return WeightLayout::kBF16;
  return scheme.bits == 4 ? WeightLayout::kW4 : WeightLayout::kW8;
}

bool can_pack_together(std::span<const MatrixReader* const> parts, WeightPrecision precision) {
  for (const MatrixReader* const part : parts) {
    if (part->depth() != parts[0]->depth()) return false;
    if (precision == WeightPrecision::kNative && !same_scheme(part->scheme(), parts[0]->scheme()))
      return false;
  }
  return true;
}

Result<PackedWeight> pack_matrix(std::span<const MatrixReader* const> parts, WeightPrecision precision,
                                 ComputePool& pool) {
  PAGODA_CHECK(!parts.empty() && can_pack_together(parts, precision), "{} parts", parts.size());
  const CodeScheme scheme = parts[0]->scheme();
  PackedWeightSpec spec;
  spec.layout = packed_layout(scheme, precision);
  spec.depth = parts[0]->depth();
  for (const MatrixReader* const part : parts) spec.rows += part->rows();
  PAGODA_CHECK(spec.rows <= std::numeric_limits<int32_t>::max(), "{} rows", spec.rows);
  if (Packer::is_coded(spec.layout)) {
    const MatrixReader::Range range = PAGODA_TRY(range_of(parts, pool));
    spec.group_size = scheme.group_size;
    spec.has_offsets = scheme.has_offsets;
    spec.zero_point = scheme.has_offsets ? 0 : scheme.zero_point;
    spec.scale_multiplier = f16_multiplier(range.max_scale);
    spec.offset_multiplier = f16_multiplier(range.max_offset);
  }
  PackedWeight weight(spec);
  PAGODA_TRY(Packer(parts, weight, pool).run());
  return weight;
}

}  // namespace pagoda::model
