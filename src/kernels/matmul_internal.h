// What the plain and the gated product share: panels of one weight times all activation rows.
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/matmul.h"

namespace pagoda::kernels {

// CHECKs that the job fits the activations.
void check_job(const Activations& x, const MatmulJob& job);
// Panels [begin, end) of the job, on the calling thread.
void run_panels(const Activations& x, const MatmulJob& job, int64_t begin, int64_t end);
// A rough time for one panel, for the size of chunks only.
double panel_ns(const Activations& x, const PackedWeight& w);

}  // namespace pagoda::kernels
