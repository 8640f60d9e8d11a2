// `pagoda generate`: one prompt from the command line, streamed to the terminal.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

Result<void> run_generate(const GenerateFlags& flags);

}  // namespace pagoda::cli
