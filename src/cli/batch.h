// `pagoda batch`: a file of requests in, a file of answers out.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

// Lines are OpenAI's of the Batch API, and go through the routes of the server. What the output has already
// is skipped, so that a run that was ended in any way goes on. The first SIGINT or SIGTERM ends the run in
// order, the second at once. The exit code: 0 all good, 1 some lines failed, 130 ended by a signal.
Result<int> run_batch(const BatchFlags& flags);

}  // namespace pagoda::cli
