// The factor of an inverse that GPTQ needs.
#pragma once

#include "base/thread_pool.h"
#include "quantize/dense.h"

namespace pagoda::quantize {

// Upper triangular U with inverse(h) = U^T U, for symmetric positive definite h [n, n], which is used up;
// an empty matrix if h is not positive definite in float32. The lower triangle of U is zero.
//
// inverse(h) = U^T U means h = V V^T with V = U^-1 upper triangular, which is a Cholesky factor of h with
// rows and columns in reverse. So one factor and one triangular inverse do, where the paper's code (Frantar
// et al. 2022) computes the inverse itself between two factors.
Dense upper_factor_of_inverse(Dense h, ComputePool& pool);

}  // namespace pagoda::quantize
