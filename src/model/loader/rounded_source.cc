#include "model/loader/rounded_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>

#include "base/check.h"
#include "model/loader/grouped_matrix.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// To the 11 bits that a packed scale keeps, so that codes are the nearest under what will be stored.
float round_to_f16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff});
}

struct Extent {
  float low, high;
};
// NaN when one of the values is no finite number. Lanes of their own let the compiler use vectors: the order
// of minima and maxima is not its to change.
Extent extent(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> low, high, nothing{};  // zero times any finite number
  low.fill(values[0]);
  high.fill(values[0]);
  const auto take = [&](size_t lane, float value) {
    low[lane] = value < low[lane] ? value : low[lane];
    high[lane] = value > high[lane] ? value : high[lane];
    nothing[lane] += value * 0.0f;
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, values[i + lane]);
  }
  for (; i < values.size(); ++i) take(0, values[i]);
  const float sum = std::accumulate(nothing.begin(), nothing.end(), 0.0f);
  if (std::isnan(sum)) return {kNan, kNan};
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

struct Step {
  float scale, offset;
};

Step choose_step(std::span<const float> group, const CodeScheme& scheme) {
  const Extent range = extent(group);
  if (!scheme.has_offsets) {
    const float largest = std::max(std::fabs(range.low), std::fabs(range.high));
    return {round_to_f16_bits(largest / 127), 0};
  }
  return {round_to_f16_bits((range.high - range.low) / 15), round_to_f16_bits(range.low)};
}

// The nearest codes, at most `largest`; `zero` where all weights are equal to the offset.
void round_codes(std::span<const float> values, const Step& step, int zero, int largest, uint8_t* codes) {
  const float scale = step.scale > 0 ? step.scale : std::numeric_limits<float>::infinity();
  const float shift = static_cast<float>(zero) + 0.5f, limit = static_cast<float>(largest);
  for (size_t i = 0; i < values.size(); ++i) {
    float code = (values[i] - step.offset) / scale + shift;  // cutting it off rounds
    code = code > 0 ? code : 0;
    code = code < limit ? code : limit;
    codes[i] = static_cast<uint8_t>(static_cast<int>(code));
  }
}

// A small matrix whose output decides between experts: an error there is another model.
bool is_router(std::string_view name) {
  return name.ends_with(".mlp.gate.weight") || name.ends_with(".block_sparse_moe.gate.weight");
}

}  // namespace

RoundedMatrix::RoundedMatrix(std::unique_ptr<MatrixReader> source, Rounding rounding)
    : source_(std::move(source)) {
  PAGODA_CHECK(source_->scheme().bits == 0, "{} holds codes", source_->describe());
  const int64_t depth = source_->depth();
  if (rounding == Rounding::kInt8) {
    scheme_ = {8, packed_group_size({1, depth, 8, depth}), false, 128};
  } else {
    scheme_ = {4, 32, true, 0};
  }
}

int64_t RoundedMatrix::groups_per_row() const {
  return round_up(depth(), kDepthMultiple) / scheme_.group_size;
}

template <class Body>
void RoundedMatrix::for_each_group(int64_t first, int64_t count, Body body) const {
  const auto row_size = static_cast<size_t>(depth());
  std::vector<float> values(static_cast<size_t>(count) * row_size);
  source_->read_values(first, count, values.data());
  const auto width = static_cast<size_t>(scheme_.group_size);
  for (size_t row = 0; row < values.size(); row += row_size) {
    for (size_t k = 0; k < row_size; k += width) {
      body(std::span<const float>(values).subspan(row + k, std::min(width, row_size - k)));
    }
    // A group may lie wholly in the padding.
    for (int64_t g = static_cast<int64_t>((row_size + width - 1) / width); g < groups_per_row(); ++g)
      body({});
  }
}

MatrixReader::Range RoundedMatrix::code_range(int64_t first, int64_t count) const {
  Range range;
  for_each_group(first, count, [&](std::span<const float> group) {
    if (group.empty()) return;
    const Step step = choose_step(group, scheme_);
    // Not by std::max: NaN has to win.
    if (!std::isnan(range.max_scale) && !(step.scale <= range.max_scale)) range.max_scale = step.scale;
    range.max_offset = std::max(range.max_offset, std::fabs(step.offset));
  });
  return range;
}

void RoundedMatrix::read_codes(int64_t first, int64_t count, uint8_t* codes, float* scales,
                               float* offsets) const {
  const int largest = (1 << scheme_.bits) - 1;
  for_each_group(first, count, [&](std::span<const float> group) {
    const Step step = group.empty() ? Step{0, 0} : choose_step(group, scheme_);
    *scales++ = step.scale;
    if (scheme_.has_offsets) *offsets++ = step.offset;
    round_codes(group, step, scheme_.zero_point, largest, codes);
    codes += group.size();
  });
}

void RoundedMatrix::read_values(int64_t first, int64_t count, float* values) const {
  const auto groups = static_cast<size_t>(count * groups_per_row());
  std::vector<uint8_t> codes(static_cast<size_t>(count * depth()));
  std::vector<float> scales(groups), offsets(groups);
  read_codes(first, count, codes.data(), scales.data(), offsets.data());
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t k = 0; k < depth(); ++k) {
      const auto at = static_cast<size_t>(r * groups_per_row() + k / scheme_.group_size);
      const int code = codes[static_cast<size_t>(r * depth() + k)] - scheme_.zero_point;
      *values++ = scales[at] * static_cast<float>(code) + offsets[at];
    }
  }
}

Result<std::unique_ptr<MatrixReader>> RoundedSource::matrix(const std::string& name, int64_t rows,
                                                            int64_t depth) const {
  auto floats = PAGODA_TRY(source_->matrix(name, rows, depth));
  if (floats->scheme().bits != 0 || is_router(name) || name == "model.embed_positions.weight") return floats;
  const bool outside_layers = name == "model.embed_tokens.weight" || name == "lm_head.weight";
  const std::optional<Rounding> rounding = outside_layers ? Rounding::kInt8 : layers_;
  if (!rounding) return floats;
  return std::unique_ptr<MatrixReader>(std::make_unique<RoundedMatrix>(std::move(floats), *rounding));
}

}  // namespace pagoda::model
