// What serving text and serving embeddings share.
#pragma once

#include <cstdint>
#include <string>

#include "cli/flags.h"
#include "net/http_server.h"

namespace pagoda::cli {

net::HttpServerOptions server_options(const ServeFlags& flags);
// For people to copy.
std::string base_url(const ServeFlags& flags, uint16_t port);

}  // namespace pagoda::cli
