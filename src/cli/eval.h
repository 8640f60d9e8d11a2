// `pagoda eval`: what models cost and how good they are, in one table.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

// Every model runs in a process of its own (eval_worker.h), the reference beside each of the others. SIGINT
// and SIGTERM end it with one line. The exit code: 0 all good, 1 a model failed, 130 ended by a signal.
Result<int> run_eval(const EvalFlags& flags);

}  // namespace pagoda::cli
