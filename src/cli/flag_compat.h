// vLLM flags that have no effect or no counterpart here, and YAML configuration, as plain rewriting of
// arguments.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::cli {

// Removes flags that concern GPUs or choices this program does not have, adding a line to `warnings` for
// each, and refuses flags of features that are not in this version: kInvalidArgument naming the flag.
Result<std::vector<std::string>> drop_foreign_flags(const std::vector<std::string>& args,
                                                    std::vector<std::string>& warnings);

// Replaces `--config FILE` by the file's own flags, placed before the others so that the command line wins.
// kInvalidArgument or kIo naming the file and line.
Result<std::vector<std::string>> expand_config_file(const std::vector<std::string>& args);

}  // namespace pagoda::cli
