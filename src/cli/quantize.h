// `pagoda quantize`: writes a quantised copy of a model.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

// Progress goes to standard error. An interrupted run can be continued by the same command.
Result<void> run_quantize(const QuantizeFlags& flags);

}  // namespace pagoda::cli
