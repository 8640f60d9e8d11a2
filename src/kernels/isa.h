// The tier that the dispatchers use. Set once at start-up (or by a test) before kernels run.
#pragma once

#include "base/cpu_info.h"

namespace pagoda::kernels {

// Not thread-safe against running kernels. PAGODA_CHECKs that the CPU has the tier.
void set_isa(Isa isa);
Isa current_isa();

}  // namespace pagoda::kernels
