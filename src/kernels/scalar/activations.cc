#include <cmath>
#include <cstring>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

struct GroupTarget {
  bool wide;
  int8_t *codes, *low_codes;
};

// Returns the scale; adds to the sums of the two halves.
float quantize_group(const float* x, const GroupTarget& to, int (&sum)[2]) {
  float max = 0;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    max = std::fabs(x[i]) > max ? std::fabs(x[i]) : max;
    finite &= std::isfinite(x[i]);
  }
  const bool usable = finite && max >= kZeroBelow;
  const float limit = to.wide ? 32512.0f : 127.0f, inverse = usable ? limit / max : 0.0f;
  for (int i = 0; i < 32; ++i) {
    const int code = usable ? static_cast<int>(std::nearbyint(x[i] * inverse)) : 0;
    if (!to.wide) {
      to.codes[i] = static_cast<int8_t>(code);
      sum[i / 16] += code;
    } else {
      const int low = static_cast<int8_t>(code & 255), high = (code - low) / 256;
      to.codes[i] = static_cast<int8_t>(high);
      to.low_codes[i] = static_cast<int8_t>(low < -127 ? -127 : low);
      sum[i / 16] += 256 * high + to.low_codes[i];
    }
  }
  return !finite ? std::nanf("") : usable ? max / limit : 0.0f;
}

void quantize(const float* x, int64_t groups, const QuantizedGroups& out) {
  int8_t* low_codes = out.low_codes;
  for (int64_t g = 0; g < groups; ++g, x += 32) {
    const bool wide = out.wide[g] != 0;
    int sum[2] = {};
    out.scales[g] = quantize_group(x, {wide, out.codes + g * 32, low_codes}, sum);
    if (wide) low_codes += 32;
    out.sums[g * 2] = sum[0];
    out.sums[g * 2 + 1] = sum[1];
    out.scaled_sums[g] = out.scales[g] * static_cast<float>(sum[0] + sum[1]);
  }
}

void round_bf16(const float* x, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    out[i] = static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace

const ActivationBody activation_body = {quantize, round_bf16};

}  // namespace pagoda::kernels::scalar
