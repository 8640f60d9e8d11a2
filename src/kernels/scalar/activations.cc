#include <cmath>
#include <cstring>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

// kLimit: the largest code.
template <int kLimit>
void quantize(const float* x, int64_t groups, const QuantizedGroups& out) {
  for (int64_t g = 0; g < groups; ++g, x += 32) {
    float max = 0;
    bool finite = true;
    for (int i = 0; i < 32; ++i) {
      max = std::fabs(x[i]) > max ? std::fabs(x[i]) : max;
      finite &= std::isfinite(x[i]);
    }
    const bool usable = finite && max >= kZeroBelow;
    const float inverse = usable ? static_cast<float>(kLimit) / max : 0.0f;
    int sum[2] = {};
    for (int i = 0; i < 32; ++i) {
      const int code = usable ? static_cast<int>(std::nearbyint(x[i] * inverse)) : 0;
      if (kLimit == 127) {
        out.codes[g * 32 + i] = static_cast<int8_t>(code);
        sum[i / 16] += code;
      } else {
        const int low = static_cast<int8_t>(code & 255), high = (code - low) / 256;
        out.codes[g * 32 + i] = static_cast<int8_t>(high);
        out.low_codes[g * 32 + i] = static_cast<int8_t>(low < -127 ? -127 : low);
        sum[i / 16] += 256 * high + out.low_codes[g * 32 + i];
      }
    }
    out.sums[g * 2] = sum[0];
    out.sums[g * 2 + 1] = sum[1];
    out.scales[g] = !finite ? std::nanf("") : usable ? max / static_cast<float>(kLimit) : 0.0f;
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

const ActivationBody activation_body = {quantize<127>, quantize<32512>, round_bf16};

}  // namespace pagoda::kernels::scalar
