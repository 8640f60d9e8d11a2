// `pagoda inspect`: what a model is and what running it would take, without packing it.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

// Prints to standard output.
Result<void> run_inspect(const InspectFlags& flags);

}  // namespace pagoda::cli
