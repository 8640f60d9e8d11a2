// What requests and answers must know of the model's chat template.
#pragma once

#include "api/http/api.h"
#include "api/openai/request.h"
#include "service/service.h"

namespace pagoda::http {

// Fills the template's part of `options`. Unknown parser names fall back to what the template shows; the
// command line refuses them before.
void read_chat_template(const service::Service& service, const ApiOptions& api,
                        openai::ParseOptions* options);

}  // namespace pagoda::http
