#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

#include "kernels/layer_norm_body.h"

}  // namespace

const LayerNormBody layer_norm_body = {statistics, apply};

}  // namespace pagoda::kernels::scalar
