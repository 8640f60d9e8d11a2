// What answers look like. Only what a client may rely on is named; answers may hold more.
#include "api/openai/contract.h"

namespace pagoda::openai {
namespace {

constexpr ContractSchema kSchemas[] = {
    {"Error", R"({"type":"object","required":["error"],"properties":{"error":{"type":"object",
      "required":["message","type","param","code"],"properties":{"message":{"type":"string"},
      "type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":["string","null"]}}}}})"},
    {"MessagesError", R"({"type":"object","required":["error"],"properties":{"type":{"const":"error"},
      "error":{"type":"object","required":["type","message"],"properties":{"type":{"type":"string"},
      "message":{"type":"string"},"param":{"type":["string","null"]}}}}})"},
    {"Usage", R"({"type":"object","required":["prompt_tokens","completion_tokens","total_tokens"],
      "properties":{"prompt_tokens":{"type":"integer"},"completion_tokens":{"type":"integer"},
      "total_tokens":{"type":"integer"},"prompt_tokens_details":{"type":"object",
      "properties":{"cached_tokens":{"type":"integer"}}}}})"},
    {"Completion", R"({"type":"object","required":["id","object","created","model","choices","usage"],
      "properties":{"id":{"type":"string"},"object":{"const":"text_completion"},"created":{"type":"integer"},
      "model":{"type":"string"},"usage":{"$ref":"#/components/schemas/Usage"},"choices":{"type":"array",
      "items":{"type":"object","required":["index","text","logprobs","finish_reason"],
      "properties":{"index":{"type":"integer"},"text":{"type":"string"},"logprobs":{"type":["object","null"]},
      "finish_reason":{"enum":["stop","length"]},"stop_reason":{"type":["string","integer","null"]}}}}}})"},
    {"Infill", R"({"type":"object","properties":{"content":{"type":"string"},"stop":{"type":"boolean"},
      "model":{"type":"string"},"tokens":{"type":"array","items":{"type":"integer"}},
      "tokens_predicted":{"type":"integer"},"tokens_evaluated":{"type":"integer"},
      "tokens_cached":{"type":"integer"},"truncated":{"type":"boolean"},
      "stop_type":{"enum":["none","eos","limit","word"]},"stopping_word":{"type":"string"},
      "timings":{"type":"object"}}})"},
    {"Generated", R"({"type":"object","required":["text","finish_reason","usage"],"properties":{
      "text":{"type":"string"},"finish_reason":{"enum":["stop","length"]},
      "usage":{"$ref":"#/components/schemas/Usage"}}})"},
    {"ChatCompletion", R"({"type":"object","required":["id","object","created","model","choices","usage"],
      "properties":{"id":{"type":"string"},"object":{"const":"chat.completion"},"created":{"type":"integer"},
      "model":{"type":"string"},"usage":{"$ref":"#/components/schemas/Usage"},"choices":{"type":"array",
      "items":{"type":"object","required":["index","message","logprobs","finish_reason"],
      "properties":{"index":{"type":"integer"},"message":{"type":"object","required":["role","content"],
      "properties":{"role":{"const":"assistant"},"content":{"type":["string","null"]},
      "reasoning_content":{"type":["string","null"]},"tool_calls":{"type":["array","null"]}}},
      "logprobs":{"type":["object","null"]},"finish_reason":{"enum":["stop","length","tool_calls"]},
      "stop_reason":{"type":["string","integer","null"]}}}}}})"},
    {"Response",
     R"({"type":"object","required":["id","object","created_at","status","model","output","usage"],
      "properties":{"id":{"type":"string"},"object":{"const":"response"},"created_at":{"type":"integer"},
      "status":{"enum":["completed","incomplete","failed","in_progress"]},"model":{"type":"string"},
      "output":{"type":"array","items":{"type":"object","required":["type"],
      "properties":{"type":{"enum":["message","reasoning","function_call"]}}}},
      "usage":{"type":["object","null"]}}})"},
    {"Message", R"({"type":"object","required":["id","type","role","model","content","stop_reason","usage"],
      "properties":{"id":{"type":"string"},"type":{"const":"message"},"role":{"const":"assistant"},
      "model":{"type":"string"},"content":{"type":"array","items":{"type":"object","required":["type"],
      "properties":{"type":{"enum":["text","thinking","tool_use"]}}}},
      "stop_reason":{"enum":["end_turn","max_tokens","stop_sequence","tool_use",
      "model_context_window_exceeded"]},"stop_sequence":{"type":["string","null"]},
      "usage":{"type":"object","required":["input_tokens","output_tokens"]}}})"},
    {"CountedTokens",
     R"({"type":"object","required":["input_tokens"],"properties":{"input_tokens":{"type":"integer"}}})"},
    {"Tokens", R"({"type":"object","required":["count","max_model_len","tokens"],
      "properties":{"count":{"type":"integer"},"max_model_len":{"type":"integer"},
      "tokens":{"type":"array","items":{"type":"integer"}},"token_strs":{"type":["array","null"]}}})"},
    {"Embeddings", R"({"type":"object","required":["object","model","data","usage"],
      "properties":{"object":{"const":"list"},"model":{"type":"string"},"data":{"type":"array",
      "items":{"type":"object","required":["index","object","embedding"],"properties":{
      "index":{"type":"integer"},"object":{"const":"embedding"},"embedding":{"type":["array","string"]}}}},
      "usage":{"type":"object"}}})"},
    {"Ranking", R"({"type":"object","required":["id","model","results"],"properties":{"id":{"type":"string"},
      "model":{"type":"string"},"results":{"type":"array","items":{"type":"object",
      "required":["index","relevance_score"],"properties":{"index":{"type":"integer"},
      "relevance_score":{"type":"number"}}}}}})"},
    {"Scores", R"({"type":"object","required":["object","model","data"],"properties":{
      "object":{"const":"list"},"model":{"type":"string"},"data":{"type":"array","items":{"type":"object",
      "required":["index","score"],"properties":{"index":{"type":"integer"},"score":{"type":"number"}}}}}})"},
    {"Prompt", R"({"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string"}}})"},
    {"Model", R"({"type":"object","required":["id","object","created","owned_by","max_model_len"],
      "properties":{"id":{"type":"string"},"object":{"const":"model"},"created":{"type":"integer"},
      "owned_by":{"type":"string"},"max_model_len":{"type":"integer"},
      "quantization":{"type":["string","null"]}}})"},
    {"ModelList", R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},
      "data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}})"},
    {"Status", R"({"type":"object","required":["status"],"properties":{"status":{"type":"string"}}})"},
    {"Version", R"({"type":"object","required":["version"],"properties":{"version":{"type":"string"}}})"},
    {"Blocks", R"({"type":"object","required":["total","used","free","cached","block_size","requests"],
      "properties":{"total":{"type":"integer"},"used":{"type":"integer"},"free":{"type":"integer"},
      "cached":{"type":"integer"},"block_size":{"type":"integer"},"requests":{"type":"array"}}})"},
    {"Document", R"({"type":"object","required":["openapi","info","paths"]})"},
};

}  // namespace

std::span<const ContractSchema> contract_schemas() {
  return kSchemas;
}

}  // namespace pagoda::openai
