// Between the types of the wire (openai) and those of the service, field by field.
#pragma once

#include "api/openai/request.h"
#include "api/openai/response.h"
#include "service/service.h"

namespace pagoda::http {

// Everything but the prompt.
service::GenerationRequest generation_request(const openai::CommonFields& fields);

openai::PromptInfo prompt_info(service::PromptEvent event);
openai::ChoiceDelta choice_delta(int index, service::ChoiceEvent event);

}  // namespace pagoda::http
