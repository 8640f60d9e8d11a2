// Pieces that both kinds of answers are made of.
#pragma once

#include "api/openai/json_text.h"
#include "api/openai/response.h"

namespace pagoda::openai {

Json usage_json(const UsageCounts& usage);
Json finish_json(Finish finish);  // null while running
Json stop_reason_json(const ChoiceDelta& delta);
Json ids_json(const std::vector<TokenId>& ids);

// id, object, created, model; `choices` comes next.
Json head_json(const ResponseOptions& options, const char* object);

// Sets "usage" of a chunk as the stream options say.
void set_chunk_usage(const ResponseOptions& options, const UsageCounts& usage, Json* chunk);

// The end of a stream with include_usage.
std::string usage_chunk_json(const ResponseOptions& options, const char* object, const UsageCounts& usage);

}  // namespace pagoda::openai
