#include "model/pack.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "tensor/aligned_buffer.h"

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

  void fit(const PackedWeightSpec& spec);
};

// Rows [first, first + count) of the stacked parts, in pieces that lie in one part each.
template <class Body>
void for_each_piece(const MatrixReaders& parts, int64_t first, int64_t count, Body body) {
  int64_t part_start = 0;
  for (const auto& part : parts) {
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

bool is_coded(WeightLayout layout) {
  return code_bits(layout) > 0;
}

int64_t groups_per_row(const PackedWeightSpec& spec) {
  return is_coded(spec.layout) ? spec.padded_depth() / spec.group_size : 0;
}

void PanelBuffer::fit(const PackedWeightSpec& spec) {
  const auto grow = [](auto& buffer, int64_t columns) {
    const auto size = static_cast<size_t>(columns * kPanelRows);
    if (buffer.size() < size) buffer.resize(size);
  };
  if (!is_coded(spec.layout)) return grow(values, spec.depth);
  grow(codes, spec.depth);
  grow(scales, groups_per_row(spec));
  if (spec.has_offsets) grow(offsets, groups_per_row(spec));
}

// Reads rows of `part` into the buffer's rows from `at` on; false when one of the values is no finite number.
// (Scales and offsets have been checked when their range was taken.)
bool read_rows(const MatrixReader& part, ChunkRange rows, const PackedWeightSpec& spec, int64_t at,
               PanelBuffer& buffer) {
  const int64_t count = rows.end - rows.begin, groups = groups_per_row(spec);
  if (is_coded(spec.layout)) {
    float* const offsets = spec.has_offsets ? buffer.offsets.data() + at * groups : nullptr;
    part.read_codes(rows.begin, count, buffer.codes.data() + at * spec.depth,
                    buffer.scales.data() + at * groups, offsets);
    return true;
  }
  float* const values = buffer.values.data() + at * spec.depth;
  part.read_values(rows.begin, count, values);
  return all_finite(std::span(values, static_cast<size_t>(count * spec.depth)));
}

// Packs one panel; returns the part that holds a value which is no finite number, or null.
const MatrixReader* pack_panel(const MatrixReaders& parts, int64_t panel, PanelBuffer& buffer,
                               PackedWeight& weight) {
  const PackedWeightSpec& spec = weight.spec();
  const int64_t first = panel * kPanelRows;
  buffer.fit(spec);
  PanelSource source;
  source.num_rows = static_cast<int>(std::min<int64_t>(kPanelRows, spec.rows - first));
  const MatrixReader* bad = nullptr;
  for_each_piece(parts, first, source.num_rows,
                 [&](const MatrixReader& part, int64_t row, int64_t count, int64_t at) {
                   if (!read_rows(part, {row, row + count}, spec, at, buffer)) bad = &part;
                 });
  // The multipliers are powers of two: dividing by them rounds nothing.
  const auto scaled = static_cast<size_t>(source.num_rows * groups_per_row(spec));
  const float scale_factor = 1.0f / spec.scale_multiplier, offset_factor = 1.0f / spec.offset_multiplier;
  for (float& scale : std::span(buffer.scales).first(scaled)) scale *= scale_factor;
  if (spec.has_offsets) {
    for (float& offset : std::span(buffer.offsets).first(scaled)) offset *= offset_factor;
  }
  source.codes = buffer.codes.data();
  source.code_stride = spec.depth;
  source.scales = buffer.scales.data();
  source.offsets = buffer.offsets.data();
  source.values = buffer.values.data();
  source.value_stride = spec.depth;
  weight.pack_panel(panel, source);
  return bad;
}

// Many lists of work as one: chunk c of all is chunk `index` of list `item`.
class FlatWork {
 public:
  void add(size_t item, int64_t chunks) {
    if (chunks == 0) return;
    items_.push_back(item);
    total_ += chunks;
    ends_.push_back(total_);
  }
  int total() const { return static_cast<int>(total_); }
  struct Place {
    size_t item;
    int64_t index;
  };
  Place find(int64_t chunk) const {
    const auto list = std::upper_bound(ends_.begin(), ends_.end(), chunk) - ends_.begin();
    return {items_[static_cast<size_t>(list)],
            list == 0 ? chunk : chunk - ends_[static_cast<size_t>(list) - 1]};
  }

 private:
  std::vector<size_t> items_;
  std::vector<int64_t> ends_;
  int64_t total_ = 0;
};

// Takes the huge pages that begin in [begin, end) from the system, each on one thread. Neighbouring panels
// lie in the same page and are packed at the same time: left to them, every thread that writes to a new page
// first allocates and clears one of its own, and all but one are thrown away.
void touch_huge_pages(uint8_t* memory, size_t begin, size_t end, ComputePool& pool) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t first = (begin + kHugePage - 1) / kHugePage, last = (end + kHugePage - 1) / kHugePage;
  pool.run(static_cast<int>(last - first), [&](int page, int) {
    volatile uint8_t* const at = memory + (first + static_cast<size_t>(page)) * kHugePage;
    *at = 0;  // as it is in new memory
  });
}

// A weight begins at a boundary of cache lines.
constexpr size_t kAlignment = 64;

// Rows whose range is one chunk of work: some 100 us.
constexpr int64_t kRangeRows = 256;

WeightLayout layout_for(const CodeScheme& scheme, WeightPrecision precision) {
  if (precision == WeightPrecision::kFloat32) return WeightLayout::kF32;
  if (scheme.bits == 0) return WeightLayout::kBF16;
  if (scheme.bits <= 4) return WeightLayout::kW4;
  if (scheme.bits == 5 && scheme.group_size != 16) return WeightLayout::kW5;
  return scheme.bits <= 6 ? WeightLayout::kW6 : WeightLayout::kW8;
}

}  // namespace

PackedWeightSpec packed_spec(const CodeScheme& scheme, int64_t rows, int64_t depth,
                             WeightPrecision precision) {
  PackedWeightSpec spec;
  spec.layout = layout_for(scheme, precision);
  spec.rows = rows;
  spec.depth = depth;
  if (!is_coded(spec.layout)) return spec;
  spec.group_size = scheme.group_size;
  spec.has_offsets = scheme.has_offsets;
  spec.zero_point = scheme.has_offsets ? 0 : scheme.zero_point;
  return spec;
}

bool can_pack_together(std::span<const MatrixReader* const> parts, WeightPrecision precision) {
  for (const MatrixReader* const part : parts) {
    if (part->depth() != parts[0]->depth()) return false;
    if (precision != WeightPrecision::kNative) continue;
    if (!same_scheme(part->scheme(), parts[0]->scheme())) return false;
    if (!std::ranges::equal(part->column_order(), parts[0]->column_order())) return false;
  }
  return true;
}

PackedWeightSpec WeightPacker::add(MatrixReaders parts, PackedWeight& target, WeightPrecision precision) {
  PAGODA_CHECK(!parts.empty());
  const CodeScheme scheme = parts[0]->scheme();
  const int64_t depth = parts[0]->depth();
  int64_t rows = 0;
  for (const auto& part : parts) {
    PAGODA_CHECK(part->depth() == depth, "depths {} and {}", part->depth(), depth);
    PAGODA_CHECK(precision != WeightPrecision::kNative || same_scheme(part->scheme(), scheme));
    rows += part->rows();
  }
  PAGODA_CHECK(rows <= std::numeric_limits<int32_t>::max(), "{} rows", rows);
  const PackedWeightSpec spec = packed_spec(scheme, rows, depth, precision);
  offsets_.push_back(bytes_);
  bytes_ = (bytes_ + PackedWeight::bytes_for(spec) + kAlignment - 1) / kAlignment * kAlignment;
  specs_.push_back(spec);
  items_.push_back({std::move(parts), &target});
  return spec;
}

Result<std::shared_ptr<uint8_t>> WeightPacker::pack(ComputePool& pool) {
  auto memory = share_buffer(AlignedBuffer(bytes_));
  size_t touched = 0;
  for (size_t begin = 0, end = 0; begin < items_.size(); begin = end) {
    while (end < items_.size() && (end == begin || offsets_[end] - offsets_[begin] < kBatchBytes)) ++end;
    PAGODA_TRY(set_multipliers(begin, end, pool));
    const size_t batch_end = end < items_.size() ? offsets_[end] : bytes_;
    touch_huge_pages(memory.get(), touched, batch_end, pool);
    touched = std::max(touched, batch_end);
    for (size_t i = begin; i < end; ++i) {
      *items_[i].target =
          PackedWeight(specs_[i], std::shared_ptr<uint8_t>(memory, memory.get() + offsets_[i]));
    }
    PAGODA_TRY(pack_batch(begin, end, pool));
    for (size_t i = begin; i < end; ++i) {
      for (const auto& part : items_[i].parts) part->release_pages();
    }
  }
  return memory;
}

void WeightPacker::use(std::span<const PackedWeightSpec> specs,
                       const std::shared_ptr<const uint8_t>& memory) {
  PAGODA_CHECK(specs.size() == specs_.size(), "{} of {} weights", specs.size(), specs_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    specs_[i].scale_multiplier = specs[i].scale_multiplier;
    specs_[i].offset_multiplier = specs[i].offset_multiplier;
    *items_[i].target =
        PackedWeight(specs_[i], std::shared_ptr<const uint8_t>(memory, memory.get() + offsets_[i]));
  }
}

// The f16 multipliers of weights [begin, end), from the ranges of their scales and offsets.
Result<void> WeightPacker::set_multipliers(size_t begin, size_t end, ComputePool& pool) {
  std::vector<const MatrixReader*> parts;
  FlatWork work;
  for (size_t i = begin; i < end; ++i) {
    if (!is_coded(specs_[i].layout)) continue;
    for (const auto& part : items_[i].parts) {
      work.add(parts.size(), (part->rows() + kRangeRows - 1) / kRangeRows);
      parts.push_back(part.get());
    }
  }
  std::vector<MatrixReader::Range> ranges(static_cast<size_t>(work.total()));
  pool.run(work.total(), [&](int chunk, int) {
    const auto [item, index] = work.find(chunk);
    const int64_t first = index * kRangeRows;
    ranges[static_cast<size_t>(chunk)] =
        parts[item]->code_range(first, std::min(kRangeRows, parts[item]->rows() - first));
  });
  size_t next = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!is_coded(specs_[i].layout)) continue;
    MatrixReader::Range all;
    for (const auto& part : items_[i].parts) {
      for (int64_t first = 0; first < part->rows(); first += kRangeRows) {
        const MatrixReader::Range& range = ranges[next++];
        if (!std::isfinite(range.max_scale) || !std::isfinite(range.max_offset)) {
          return make_error(ErrorKind::kCorruptFile,
                            part->describe() + " has a scale or offset that is no finite number");
        }
        all.max_scale = std::max(all.max_scale, range.max_scale);
        all.max_offset = std::max(all.max_offset, range.max_offset);
      }
    }
    specs_[i].scale_multiplier = f16_multiplier(all.max_scale);
    specs_[i].offset_multiplier = f16_multiplier(all.max_offset);
  }
  return {};
}

Result<void> WeightPacker::pack_batch(size_t begin, size_t end, ComputePool& pool) {
  FlatWork work;
  for (size_t i = begin; i < end; ++i) work.add(i, items_[i].target->num_panels());
  std::vector<PanelBuffer> buffers(static_cast<size_t>(pool.num_threads()));
  std::atomic<const MatrixReader*> bad{nullptr};
  pool.run(work.total(), [&](int chunk, int worker) {
    const auto [item, panel] = work.find(chunk);
    const MatrixReader* const part =
        pack_panel(items_[item].parts, panel, buffers[static_cast<size_t>(worker)], *items_[item].target);
    if (part != nullptr) bad.store(part);
  });
  if (const MatrixReader* const part = bad.load(); part != nullptr) {
    return make_error(ErrorKind::kCorruptFile, part->describe() + " has a value that is no finite number");
  }
  return {};
}

Result<PackedWeight> pack_matrix(std::span<const MatrixReader* const> parts, WeightPrecision precision,
                                 ComputePool& pool) {
  MatrixReaders borrowed;
  for (const MatrixReader* const part : parts) {
    borrowed.emplace_back(std::shared_ptr<const void>(), part);  // owns nothing
  }
  WeightPacker packer(precision);
  PackedWeight weight;
  packer.add(std::move(borrowed), weight);
  PAGODA_TRY(packer.pack(pool));
  return weight;
}

}  // namespace pagoda::model
