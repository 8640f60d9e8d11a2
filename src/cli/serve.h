// `pagoda serve`: the model behind the HTTP API until a signal ends it.
#pragma once

#include "base/result.h"
#include "cli/flags.h"

namespace pagoda::cli {

// Listens before the model is loaded (everything but /health/live, /version and /metrics answers 503 until
// then). The first SIGTERM or SIGINT drains for --shutdown-timeout seconds, the second ends at once. Returns
// after a drain.
Result<void> run_serve(const ServeFlags& flags);
// The same for embeddings; run_serve() decides.
Result<void> run_serve_pooling(const ServeFlags& flags);

}  // namespace pagoda::cli
