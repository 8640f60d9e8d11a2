// A loaded model as the service and the API want to have it.
#pragma once

#include <string>
#include <vector>

#include "api/http/api.h"
#include "base/result.h"
#include "cli/flags.h"
#include "cli/runtime.h"
#include "service/service.h"

namespace pagoda::cli {

service::ServiceOptions service_options(const Runtime& runtime, const std::string& name, int text_threads);

// The template that --fim-template gives in place of the model's own; nothing happens to an empty one.
Result<void> set_fim_template(const Runtime& runtime, const std::string& source,
                              service::ServiceOptions* options);

// `names` are those that requests may use.
http::LoadedModel loaded_model(const EngineFlags& flags, const Runtime& runtime, service::Service& service,
                               std::vector<std::string> names);

}  // namespace pagoda::cli
