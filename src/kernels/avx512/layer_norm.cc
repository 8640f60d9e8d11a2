#include "kernels/bodies.h"

namespace pagoda::kernels::avx512 {
namespace {

#include "kernels/layer_norm_body.h"

}  // namespace

const LayerNormBody layer_norm_body = {statistics, apply};

}  // namespace pagoda::kernels::avx512
