// response_format, structured_outputs, the older guided_* fields and llama-server's: what the output must
// match.
#pragma once

#include "api/openai/field_reader.h"
#include "api/openai/request.h"

namespace pagoda::openai {

// At most one of the fields may ask for a grammar. `grammar` stays empty when none does.
void read_grammar(FieldReader& fields, std::optional<OutputGrammar>* grammar);

}  // namespace pagoda::openai
