#include "kernels/bodies.h"

namespace pagoda::kernels::scalar {
namespace {

#include "kernels/encoder_body.h"

}  // namespace

const EncoderBody encoder_body = {gelu_erf, attend};

}  // namespace pagoda::kernels::scalar
