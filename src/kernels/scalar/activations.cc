#include <cmath>
#include <cstring>

#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

constexpr float kZeroBelow = 0x1p-100f;

void quantize(const float* x, int64_t groups, int8_t* codes, float* scales, int16_t* sums,
              float* scaled_sums) {
  for (int64_t g = 0; g < groups; ++g, x += 32, codes += 32, sums += 2) {
    float max = 0;
    bool finite = true;
    for (int i = 0; i < 32; ++i) {
      max = std::fabs(x[i]) > max ? std::fabs(x[i]) : max;
      finite &= std::isfinite(x[i]);
    }
    const bool usable = finite && max >= kZeroBelow;
    const float inverse = usable ? 127.0f / max : 0.0f;
    int sum[2] = {};
    for (int i = 0; i < 32; ++i) {
      codes[i] = usable ? static_cast<int8_t>(std::nearbyint(x[i] * inverse)) : int8_t{0};
      sum[i / 16] += codes[i];
    }
    sums[0] = static_cast<int16_t>(sum[0]);
    sums[1] = static_cast<int16_t>(sum[1]);
    scales[g] = !finite ? std::nanf("") : usable ? max / 127.0f : 0.0f;
    scaled_sums[g] = scales[g] * static_cast<float>(sum[0] + sum[1]);
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
