#include "api/openai/contract.h"

#include <array>

namespace pagoda::openai {
namespace {

constexpr ContractField kModelFields[] = {
    {"model", R"({"type":"string"})", "the server's model",
     "A name that /v1/models lists; others are a 404."},
};

constexpr ContractField kSamplingFields[] = {
    {"temperature", R"({"type":"number","minimum":0,"maximum":2})", "the model's, else 1",
     "0 takes the most likely token. At most 1 in /v1/messages."},
    {"top_p", R"({"type":"number","exclusiveMinimum":0,"maximum":1})", "the model's, else 1",
     "Keeps the smallest set of tokens with this probability."},
    {"top_k", R"({"type":"integer","minimum":-1})", "the model's, else 0",
     "Keeps this many tokens; -1 and 0 keep all."},
    {"min_p", R"({"type":"number","minimum":0,"maximum":1})", "the model's, else 0",
     "Keeps tokens with at least this share of the best one's probability."},
    {"repetition_penalty", R"({"type":"number","exclusiveMinimum":0,"maximum":1000000})",
     "the model's, else 1", "Divides the score of tokens that the prompt or the output has."},
    {"frequency_penalty", R"({"type":"number","minimum":-2,"maximum":2})", "0",
     "Subtracted for each time that the output has the token."},
    {"presence_penalty", R"({"type":"number","minimum":-2,"maximum":2})", "0",
     "Subtracted once from tokens that the output has."},
    {"seed", R"({"type":"integer"})", "random", "The same seed and request give the same output."},
    {"min_tokens", R"({"type":"integer","minimum":0})", "0", "No end and no stop before this many tokens."},
    {"stop",
     R"({"anyOf":[{"type":"string","minLength":1},)"
     R"({"type":"array","maxItems":16,"items":{"type":"string","minLength":1}}]})",
     "", "Strings of at most 4096 bytes that end the output."},
    {"stop_token_ids", R"({"type":"array","items":{"type":"integer","minimum":0}})", "",
     "Tokens that end the output."},
    {"include_stop_str_in_output", R"({"type":"boolean"})", "false", "The output ends with the stop string."},
    {"ignore_eos", R"({"type":"boolean"})", "false", "The model's end token does not end the output."},
    {"logit_bias",
     R"({"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100}})", "",
     "Added to the scores of tokens, by id."},
    {"allowed_token_ids", R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":0}})", "all",
     "Only these tokens can be generated."},
    {"bad_words", R"({"type":"array","maxItems":1024,"items":{"type":"string","minLength":1}})", "",
     "Texts whose tokens, at the start of a word and inside of one, can't follow each other."},
    {"skip_special_tokens", R"({"type":"boolean"})", "true", "Special tokens are left out of the text."},
};

constexpr ContractField kCallFields[] = {
    {"stream", R"({"type":"boolean"})", "false", "Answers with server-sent events."},
    {"truncate_prompt_tokens", R"({"type":"integer","minimum":-1,"not":{"const":0}})", "off",
     "Keeps only this many tokens at the end of the prompt; -1 what fits the context. Not with suffix."},
    {"priority", R"({"type":"integer","minimum":-2147483648,"maximum":2147483647})", "0",
     "Lower goes first, with --scheduling-policy priority."},
    {"cache_salt", R"({"type":"string","minLength":1,"maxLength":256})", "",
     "Only requests with the same salt share cached prefixes."},
    {"request_id", R"({"type":"string","minLength":1,"maxLength":256,"pattern":"^[!-~]+$"})", "made up",
     "The id of the request in answers and logs."},
    {"timeout", R"({"type":"number","exclusiveMinimum":0,"maximum":86400})", "none",
     "Seconds after which the request ends with a 504."},
};

constexpr ContractField kGrammarFields[] = {
    {"structured_outputs", R"({"type":"object"})", "",
     "What the output must match: one of the fields below."},
    {"structured_outputs.json", R"({"type":["object","string","boolean"]})", "", "A JSON schema."},
    {"structured_outputs.regex", R"({"type":"string","minLength":1})", "", "A regular expression."},
    {"structured_outputs.choice", R"({"type":"array","minItems":1,"items":{"type":"string"}})", "",
     "One of these texts."},
    {"structured_outputs.grammar", R"({"type":"string","minLength":1})", "", "A Lark or GBNF grammar."},
    {"structured_outputs.json_object", R"({"type":"boolean"})", "false", "Any JSON object."},
    {"structured_outputs.structural_tag", R"({"type":"null"})", "", "Not supported: a 400."},
    {"guided_json", R"({"type":["object","string","boolean"]})", "", "Old name of structured_outputs.json."},
    {"guided_regex", R"({"type":"string","minLength":1})", "", "Old name of structured_outputs.regex."},
    {"guided_choice", R"({"type":"array","minItems":1,"items":{"type":"string"}})", "",
     "Old name of structured_outputs.choice."},
    {"guided_grammar", R"({"type":"string","minLength":1})", "", "Old name of structured_outputs.grammar."},
    {"json_schema", R"({"type":["object","string","boolean"]})", "",
     "llama-server's name of structured_outputs.json."},
    {"grammar", R"({"type":"string"})", "",
     "llama-server's name of structured_outputs.grammar; \"\" is none."},
};

constexpr ContractField kGenerationFields[] = {
    {"n", R"({"type":"integer","minimum":1})", "1", "Choices of each prompt, at most --max-num-seqs."},
    {"stream_options", R"({"type":"object"})", "", "Only with stream."},
    {"stream_options.include_usage", R"({"type":"boolean"})", "false", "A last chunk with the usage."},
    {"stream_options.continuous_usage_stats", R"({"type":"boolean"})", "false", "The usage in every chunk."},
    {"prompt_logprobs", R"({"type":"integer","minimum":-1})", "off",
     "Scores of the prompt's tokens with this many alternatives; not with stream. -1 (all) needs a server "
     "without a limit."},
    {"return_token_ids", R"({"type":"boolean"})", "false", "Adds the ids of the prompt and the output."},
    {"user", R"({"type":"string"})", "", "Accepted, has no effect."},
    {"response_format", R"({"type":"object","required":["type"]})", "text",
     "What the output must match; with tools, an answer without calls."},
    {"response_format.type", R"({"type":"string","enum":["text","json_object","json_schema"]})", "", ""},
    {"response_format.schema", R"({"type":"object"})", "", "A JSON schema of json_object."},
    {"response_format.json_schema", R"({"type":"object","required":["schema"]})", "",
     "With the type json_schema."},
    {"response_format.json_schema.schema", R"({"type":["object","boolean"]})", "", "The JSON schema."},
    {"response_format.json_schema.name", R"({"type":"string"})", "", "Accepted, has no effect."},
    {"response_format.json_schema.description", R"({"type":"string"})", "", "Accepted, has no effect."},
    {"response_format.json_schema.strict", R"({"type":"boolean"})", "", "A schema always holds."},
    {"use_beam_search", R"({"type":"boolean"})", "false", "true is a 501."},
};

constexpr ContractField kPartsFields[] = {
    {"include_reasoning", R"({"type":"boolean"})", "true", "false leaves reasoning out of the answer."},
};

constexpr ContractField kCompletionFields[] = {
    {"prompt",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}},)"
     R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},)"
     R"({"type":"array","minItems":1,"items":{"type":"array","minItems":1,)"
     R"("items":{"type":"integer","minimum":0}}}]})",
     "required", "Text or token ids; a list gives n choices for each."},
    {"suffix", R"({"type":"string"})", "",
     "The text behind the gap that the model fills; prompt must be text. What the context can't hold is cut "
     "at the "
     "far ends, and the header X-Prompt-Truncated says so. A model that knows no gaps: 501."},
    {"stop_at_suffix", R"({"type":"boolean"})", "true",
     "The output ends before it repeats the first line of the suffix."},
    {"max_tokens", R"({"type":"integer","minimum":0})", "16", "0 with echo scores the prompt alone."},
    {"logprobs", R"({"type":["integer","boolean"],"minimum":-1})", "off",
     "Scores with this many alternatives a token, at most 20; true means 1."},
    {"echo", R"({"type":"boolean"})", "false", "The text starts with the prompt. Not with suffix."},
    {"best_of", R"({"type":"integer","minimum":1})", "n",
     "Choices to generate, at least n; the n with the best mean logprob are answered. Not with stream."},
    {"add_special_tokens", R"({"type":"boolean"})", "true", "A prompt of text gets the model's BOS token."},
};

constexpr ContractField kInfillFields[] = {
    {"input_prefix", R"({"type":"string"})", "required", "The text before the cursor."},
    {"input_suffix", R"({"type":"string"})", "required", "The text behind it."},
    {"prompt", R"({"type":"string"})", "", "More text before the cursor: the start of its line."},
    {"input_extra",
     R"({"type":"array","maxItems":1024,"items":{"type":"object","required":["text"],)"
     R"("properties":{"text":{"type":"string"},"filename":{"type":["string","null"]},)"
     R"("name":{"type":["string","null"]}}}})",
     "none", "Other files; the earliest are left out first when the context is short."},
    {"n_predict", R"({"type":"integer","minimum":-2})", "-1",
     "Tokens of the output; -1 and -2 set no limit."},
    {"max_tokens", R"({"type":"integer","minimum":-2})", "-1",
     "The same as n_predict, which counts if both are there."},
    {"repeat_penalty", R"({"type":"number","exclusiveMinimum":0,"maximum":1000000})", "",
     "llama-server's name of repetition_penalty."},
    {"stop_at_suffix", R"({"type":"boolean"})", "true",
     "The output ends before it repeats the first line of the suffix."},
    {"return_tokens", R"({"type":"boolean"})", "false", "Adds the ids of the output."},
    {"response_fields", R"({"type":"array","maxItems":64,"items":{"type":"string"}})", "all",
     "Fields of the answer that are wanted, as timings/prompt_n."},
    {"cache_prompt", "{}", "", "Accepted: prefixes are cached anyway."},
    {"id_slot", "{}", "", "Accepted, has no effect."},
    {"n_cache_reuse", "{}", "", "Accepted, has no effect."},
    {"n_keep", "{}", "", "Accepted, has no effect."},
    {"n_indent", "{}", "", "Accepted, has no effect."},
    {"samplers", "{}", "", "Accepted, has no effect."},
    {"t_max_prompt_ms", "{}", "", "Accepted, has no effect."},
    {"t_max_predict_ms", "{}", "", "Accepted, has no effect."},
};

constexpr ContractField kGenerateFields[] = {
    {"prompt", R"({"type":"string"})", "required", "The text that is continued."},
    {"max_tokens", R"({"type":"integer","minimum":0})", "16", "Tokens of the output."},
    {"add_special_tokens", R"({"type":"boolean"})", "true", "The prompt gets the model's BOS token."},
};

constexpr ContractField kMessageListField[] = {
    {"messages", R"({"type":"array","minItems":1,"items":{"type":"object","required":["role"]}})", "required",
     "Turns with role and content; content is text or a list of text parts."},
};

constexpr ContractField kTemplateFields[] = {
    {"chat_template", R"({"type":"null"})", "", "Not allowed: the server's own is used."},
    {"chat_template_kwargs", R"({"type":"object","maxProperties":64})", "", "Variables for the template."},
    {"documents", R"({"type":"array"})", "none", "Passed on to the template."},
    {"add_generation_prompt", R"({"type":"boolean"})", "true",
     "The prompt ends with the start of an answer."},
    {"continue_final_message", R"({"type":"boolean"})", "false", "The last message is gone on with."},
};

constexpr ContractField kEffortField[] = {
    {"reasoning_effort", R"({"type":"string","enum":["none","minimal","low","medium","high","xhigh"]})", "",
     "For the template."},
};

constexpr ContractField kChatFields[] = {
    {"max_tokens", R"({"type":"integer","minimum":1})", "rest of the context",
     "Old name of max_completion_tokens."},
    {"max_completion_tokens", R"({"type":"integer","minimum":1})", "rest of the context",
     "The output's tokens."},
    {"logprobs", R"({"type":"boolean"})", "false", "Scores of the output's tokens."},
    {"top_logprobs", R"({"type":"integer","minimum":-1})", "0", "Alternatives a token, at most 20."},
    {"tools", R"({"type":"array","maxItems":1024,"items":{"type":"object"}})", "none",
     "Functions that the model may call."},
    {"functions", R"({"type":"array","maxItems":1024,"items":{"type":"object"}})", "none",
     "Old form of tools."},
    {"tool_choice", R"({"type":["string","object"]})", "auto", "none, auto, required or a named function."},
    {"parallel_tool_calls", R"({"type":"boolean"})", "true", "More than one call in an answer."},
    {"function_call", R"({"type":["string","object"]})", "", "Old form of tool_choice."},
    {"add_special_tokens", R"({"type":"boolean"})", "false", "Must be false: the template writes them."},
};

constexpr ContractField kResponsesFields[] = {
    {"input", R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"object"}}]})",
     "required", "Text, or messages, function calls, their outputs and reasoning."},
    {"instructions", R"({"type":"string"})", "", "A system message before the input."},
    {"max_output_tokens", R"({"type":"integer","minimum":1})", "rest of the context", "The output's tokens."},
    {"max_tool_calls", R"({"type":"integer","minimum":1})", "", "Repeated in the answer, has no effect."},
    {"tools", R"({"type":"array","items":{"type":"object"}})", "none", "Functions only."},
    {"tool_choice", R"({"type":["string","object"]})", "auto", "none, auto, required or a named function."},
    {"tool_choice.type", R"({"const":"function"})", "", "Of a named function."},
    {"tool_choice.name", R"({"type":"string","minLength":1})", "", "Of a named function."},
    {"parallel_tool_calls", R"({"type":"boolean"})", "true", "More than one call in an answer."},
    {"text", R"({"type":"object"})", "", "The form of the text."},
    {"text.format", R"({"type":"object","required":["type"]})", "text",
     "text, json_object or json_schema, with the schema beside the type."},
    {"text.verbosity", R"({"type":"string"})", "medium",
     "Has no effect: other values than medium count as unknown."},
    {"reasoning", R"({"type":"object"})", "", "How the model thinks."},
    {"reasoning.effort", R"({"type":"string","enum":["none","minimal","low","medium","high","xhigh"]})", "",
     "As reasoning_effort in chat."},
    {"reasoning.summary", R"({"type":"string"})", "", "Repeated in the answer, has no effect."},
    {"reasoning.generate_summary", R"({"type":"string"})", "", "Old name of reasoning.summary."},
    {"include", R"({"type":"array","items":{"type":"string"}})", "",
     "message.output_text.logprobs gives scores; other names that OpenAI has do nothing."},
    {"top_logprobs", R"({"type":"integer","minimum":-1})", "0", "Alternatives a token; needs include."},
    {"truncation", R"({"const":"disabled"})", "disabled", "truncate_prompt_tokens cuts a prompt."},
    {"stream_options", R"({"type":"object"})", "", "Only with stream."},
    {"stream_options.include_obfuscation", R"({"type":"boolean"})", "", "Accepted, has no effect."},
    {"stream_options.include_usage", R"({"type":"boolean"})", "", "The last event has the usage anyway."},
    {"metadata",
     R"({"type":"object","maxProperties":16,"additionalProperties":{"type":"string","maxLength":512}})", "",
     "Repeated in the answer."},
    {"store", R"({"type":"boolean"})", "false", "Accepted; nothing is stored."},
    {"background", R"({"const":false})", "false", "Must be false: nothing is stored."},
    {"previous_response_id", R"({"type":"null"})", "", "Not allowed: nothing is stored."},
    {"conversation", R"({"type":"null"})", "", "Not allowed: nothing is stored."},
    {"prompt", R"({"type":"null"})", "", "Not allowed: nothing is stored."},
    {"safety_identifier", R"({"type":"string"})", "", "Repeated in the answer."},
    {"prompt_cache_key", R"({"type":"string"})", "", "Repeated in the answer."},
    {"prompt_cache_retention", R"({"type":"string"})", "", "Repeated in the answer."},
    {"prompt_cache_options", R"({"type":"object"})", "", "Accepted, has no effect."},
    {"service_tier", R"({"type":"string"})", "default", "Accepted, has no effect."},
    {"user", R"({"type":"string"})", "", "Repeated in the answer."},
};

constexpr ContractField kMessagesFields[] = {
    {"max_tokens", R"({"type":"integer","minimum":1})", "required",
     "The output's tokens. May be left out in count_tokens."},
    {"system", R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object"}}]})", "",
     "Text or a list of text blocks."},
    {"stop_sequences", R"({"type":"array","maxItems":16,"items":{"type":"string","minLength":1}})", "",
     "The same as stop, which must not be there, too."},
    {"tools", R"({"type":"array","items":{"type":"object"}})", "none", "Functions with an input_schema."},
    {"tool_choice", R"({"type":"object","required":["type"]})", "auto", "Which tool the model calls."},
    {"tool_choice.type", R"({"enum":["auto","any","tool","none"]})", "", "tool needs a name."},
    {"tool_choice.name", R"({"type":"string","minLength":1})", "", "The tool that must be called."},
    {"tool_choice.disable_parallel_tool_use", R"({"type":"boolean"})", "false", "One call at most."},
    {"thinking", R"({"type":"object","required":["type"]})", "the model's habit", "How the model thinks."},
    {"thinking.type", R"({"enum":["enabled","disabled","adaptive","between_tools"]})", "",
     "enabled needs budget_tokens."},
    {"thinking.budget_tokens", R"({"type":"integer","minimum":1024})", "",
     "Checked, but nothing ends a thought early."},
    {"thinking.display", R"({"enum":["summarized","omitted"]})", "summarized",
     "omitted leaves the thoughts out of the answer."},
    {"output_config", R"({"type":"object"})", "", "The form of the output."},
    {"output_config.effort", R"({"enum":["none","minimal","low","medium","high","xhigh","max"]})", "",
     "As reasoning_effort in chat; max means xhigh."},
    {"output_config.format", R"({"type":"object","required":["type","schema"]})", "",
     "The type json_schema and a schema."},
    {"metadata", R"({"type":"object"})", "", "About the request."},
    {"metadata.user_id", R"({"type":"string"})", "", "Accepted, has no effect."},
    {"cache_control", R"({"type":"object"})", "", "Accepted: prefixes are cached anyway."},
    {"service_tier", R"({"type":"string"})", "", "Accepted, has no effect."},
};

constexpr ContractField kTokenizeFields[] = {
    {"prompt", R"({"type":"string"})", "", "The text; either this or messages."},
    {"add_special_tokens", R"({"type":"boolean"})", "true for a prompt", "The model's BOS token is added."},
    {"parse_special", R"({"type":"boolean"})", "true", "Names of special tokens in a prompt become those."},
    {"return_token_strs", R"({"type":"boolean"})", "false", "Adds the tokens as text."},
};

constexpr ContractField kDetokenizeFields[] = {
    {"tokens", R"({"type":"array","items":{"type":"integer","minimum":0}})", "required", "Token ids."},
};

constexpr ContractField kPoolingFields[] = {
    {"truncate_prompt_tokens", R"({"type":"integer","minimum":-1,"maximum":2147483647,"not":{"const":0}})",
     "off", "Keeps only this many tokens; -1 what the model takes."},
    {"user", R"({"type":"string"})", "", "Accepted, has no effect."},
    {"request_id", R"({"type":"string"})", "", "Accepted, has no effect."},
};

constexpr ContractField kEmbeddingFields[] = {
    {"input",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string"}},)"
     R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},)"
     R"({"type":"array","minItems":1,"maxItems":2048,"items":{"type":"array","minItems":1,)"
     R"("items":{"type":"integer","minimum":0}}}]})",
     "required", "Text or token ids; a list gives a vector for each."},
    {"encoding_format", R"({"type":"string","enum":["float","base64"]})", "float",
     "How vectors are written."},
    {"dimensions", R"({"type":"integer","minimum":1,"maximum":2147483647})", "the model's",
     "The first numbers of the vector only, where the model allows it."},
    {"add_special_tokens", R"({"type":"boolean"})", "true", "A text gets the model's special tokens."},
};

constexpr ContractField kRerankFields[] = {
    {"query", R"({"type":"string"})", "required", "What the documents are compared with."},
    {"documents", R"({"type":"array","minItems":1,"maxItems":2048,"items":{"type":["string","object"]}})",
     "required", "Texts, or objects with a text."},
    {"top_n", R"({"type":"integer","minimum":0,"maximum":2147483647})", "all",
     "The best ones only; 0 means all."},
    {"return_documents", R"({"type":"boolean"})", "true", "Results have their texts."},
};

constexpr ContractField kScoreFields[] = {
    {"text_1",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"maxItems":2048,)"
     R"("items":{"type":["string","object"]}}]})",
     "required", "One text, or as many as text_2 has."},
    {"text_2",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"maxItems":2048,)"
     R"("items":{"type":["string","object"]}}]})",
     "required", "The texts to compare with."},
};

// What templates are rendered with is refused in the same words as for chat.
constexpr ContractField kRefusedFields[] = {
    {"tools", R"({"type":"array","items":{"type":"object"}})", "none", "Shown to the model."},
    {"functions", R"({"type":"array","items":{"type":"object"}})", "none", "Old form of tools."},
    {"use_beam_search", R"({"type":"boolean"})", "false", "true is a 501."},
};

constexpr ContractField kFileFields[] = {
    {"file", R"({"type":"string","format":"binary","minLength":1,"maxLength":209715200})", "required",
     "The file; the part of the form has its name."},
    {"purpose", R"({"type":"string","enum":["assistants","batch","evals","fine-tune","user_data","vision"]})",
     "required", "batch for what a batch reads; others are only kept."},
};

constexpr ContractField kBatchFields[] = {
    {"input_file_id", R"({"type":"string"})", "required",
     "A file with the purpose batch: a request in each line, at most 50000."},
    {"endpoint", R"({"type":"string"})", "required",
     "The url of every line: a route under /v1 that takes a POST, as /v1/chat/completions."},
    {"completion_window", R"({"type":"string","enum":["24h"]})", "required",
     "Has no effect: a batch runs when nothing else does, and never expires."},
    {"metadata",
     R"({"type":"object","maxProperties":16,"additionalProperties":{"type":"string","maxLength":512}})", "",
     "Texts of up to 512 bytes, with keys of up to 64."},
};

constexpr ContractField kPageFields[] = {
    {"after", R"({"type":"string"})", "", "The last id of the page before."},
    {"order", R"({"type":"string","enum":["asc","desc"]})", "desc", "By the time of their making."},
};
constexpr ContractField kFilePageFields[] = {
    {"limit", R"({"type":"integer","minimum":1,"maximum":10000})", "10000", "Files of a page."},
    {"purpose", R"({"type":"string"})", "any", "Only those of this purpose."},
};
constexpr ContractField kBatchPageFields[] = {
    {"limit", R"({"type":"integer","minimum":1,"maximum":100})", "20", "Batches of a page."},
};

constexpr FieldGroup kModel{"Model", kModelFields};
constexpr FieldGroup kParts{"Parts of an answer", kPartsFields};
constexpr FieldGroup kSampling{"Sampling and the end of the output", kSamplingFields};
constexpr FieldGroup kCall{"The call", kCallFields};
constexpr FieldGroup kGrammar{"Structured output", kGrammarFields};
constexpr FieldGroup kGeneration{"Completions and chat", kGenerationFields};
constexpr FieldGroup kCompletion{"Completions", kCompletionFields};
constexpr FieldGroup kInfill{"Infill", kInfillFields};
constexpr FieldGroup kGenerate{"Generate", kGenerateFields};
constexpr FieldGroup kMessageList{"Messages", kMessageListField};
constexpr FieldGroup kTemplate{"Chat template", kTemplateFields};
constexpr FieldGroup kEffort{"Reasoning", kEffortField};
constexpr FieldGroup kChat{"Chat", kChatFields};
constexpr FieldGroup kResponses{"Responses", kResponsesFields};
constexpr FieldGroup kMessages{"Anthropic Messages", kMessagesFields};
constexpr FieldGroup kTokenize{"Tokenize", kTokenizeFields};
constexpr FieldGroup kDetokenize{"Detokenize", kDetokenizeFields};
constexpr FieldGroup kPooling{"Embeddings, rerank and score", kPoolingFields};
constexpr FieldGroup kEmbedding{"Embeddings", kEmbeddingFields};
constexpr FieldGroup kRerank{"Rerank", kRerankFields};
constexpr FieldGroup kScore{"Score", kScoreFields};
constexpr FieldGroup kFile{"A file, as multipart/form-data", kFileFields};
constexpr FieldGroup kBatch{"A batch", kBatchFields};
constexpr FieldGroup kPage{"Lists of files and batches, in the query", kPageFields};
constexpr FieldGroup kFilePage{"Lists of files, in the query", kFilePageFields};
constexpr FieldGroup kBatchPage{"Lists of batches, in the query", kBatchPageFields};
constexpr FieldGroup kRefused{"Tokenize and apply-template", kRefusedFields};

using Groups = const FieldGroup* const;
constexpr Groups kAllGroups[] = {&kModel,    &kSampling,    &kCall,     &kGrammar, &kGeneration, &kCompletion,
                                 &kChat,     &kMessageList, &kTemplate, &kEffort,  &kResponses,  &kMessages,
                                 &kTokenize, &kDetokenize,  &kRefused,  &kPooling, &kEmbedding,  &kRerank,
                                 &kScore,    &kInfill,      &kGenerate, &kParts,   &kFile,       &kBatch,
                                 &kPage,     &kFilePage,    &kBatchPage};
constexpr Groups kOfCompletions[] = {&kModel, &kCompletion, &kSampling, &kCall, &kGrammar, &kGeneration};
constexpr Groups kOfInfill[] = {&kModel, &kInfill, &kSampling, &kCall, &kGrammar, &kGeneration};
constexpr Groups kOfGenerate[] = {&kModel, &kGenerate, &kSampling, &kCall, &kGrammar, &kGeneration};
constexpr Groups kOfChat[] = {&kModel,   &kMessageList, &kChat,     &kSampling, &kCall,
                              &kGrammar, &kGeneration,  &kTemplate, &kEffort,   &kParts};
constexpr Groups kOfResponses[] = {&kModel, &kResponses, &kSampling, &kCall, &kGrammar, &kTemplate, &kParts};
constexpr Groups kOfMessages[] = {&kModel, &kMessageList, &kMessages, &kSampling,
                                  &kCall,  &kGrammar,     &kTemplate, &kParts};
constexpr Groups kOfTokenize[] = {&kModel, &kTokenize, &kMessageList, &kTemplate, &kEffort, &kRefused};
constexpr Groups kOfTemplate[] = {&kModel, &kMessageList, &kTemplate, &kEffort, &kRefused};
constexpr Groups kOfDetokenize[] = {&kModel, &kDetokenize};

constexpr Groups kOfEmbeddings[] = {&kModel, &kEmbedding, &kPooling};
constexpr Groups kOfRerank[] = {&kModel, &kRerank, &kPooling};
constexpr Groups kOfScore[] = {&kModel, &kScore, &kPooling};
constexpr Groups kOfFile[] = {&kFile};
constexpr Groups kOfBatch[] = {&kBatch};
constexpr Groups kOfFilePage[] = {&kPage, &kFilePage};
constexpr Groups kOfBatchPage[] = {&kPage, &kBatchPage};

using Names = const char* const;
constexpr Names kNeedsPrompt[] = {"prompt"};
constexpr Names kNeedsSides[] = {"input_prefix", "input_suffix"};
constexpr Names kNeedsMessages[] = {"messages"};
constexpr Names kNeedsInput[] = {"input"};
constexpr Names kNeedsDocuments[] = {"query", "documents"};
constexpr Names kNeedsTexts[] = {"text_1", "text_2"};
constexpr Names kNeedsTokens[] = {"tokens"};
constexpr Names kNeedsFile[] = {"file", "purpose"};
constexpr Names kNeedsBatch[] = {"input_file_id", "endpoint", "completion_window"};
constexpr Names kNeedsMaxTokens[] = {"messages", "max_tokens"};

constexpr int kPostStatuses[] = {400, 404, 408, 413, 415, 431, 500, 501, 503, 504};
constexpr int kGetStatuses[] = {400, 404, 408, 413, 431, 500, 503};

constexpr int kStoredStatuses[] = {400, 404, 408, 413, 415, 431, 500, 501, 503, 507};

constexpr const char* kError = "Error";
constexpr AnswerKind kJson = AnswerKind::kJson;
constexpr AnswerKind kStream = AnswerKind::kJsonOrStream;

constexpr ContractRoute post(const char* path, const char* summary, std::span<Groups> groups,
                             std::span<Names> required, const char* answer) {
  return {"POST", path, summary, groups, required, kJson, answer, kError, kPostStatuses};
}
constexpr ContractRoute streaming(ContractRoute route) {
  route.answer_kind = kStream;
  return route;
}
constexpr ContractRoute with_error(ContractRoute route, const char* error) {
  route.error = error;
  return route;
}
constexpr ContractRoute get(const char* path, const char* summary, const char* answer) {
  return {"GET", path, summary, {}, {}, kJson, answer, kError, kGetStatuses};
}

// Of files and batches.
constexpr ContractRoute stored(const char* method, const char* path, const char* summary,
                               const char* answer) {
  return {method, path, summary, {}, {}, kJson, answer, kError, kStoredStatuses};
}
constexpr ContractRoute with_body(ContractRoute route, std::span<Groups> groups, std::span<Names> required) {
  route.groups = groups;
  route.required = required;
  return route;
}
constexpr ContractRoute with_query(ContractRoute route, std::span<Groups> groups) {
  route.query = groups;
  return route;
}
constexpr ContractRoute as_form(ContractRoute route) {
  route.body_type = "multipart/form-data";
  return route;
}
constexpr ContractRoute bytes(ContractRoute route) {
  route.answer_kind = AnswerKind::kBytes;
  return route;
}

constexpr std::array kRoutes = {
    streaming(post("/v1/completions", "Continues a text", kOfCompletions, kNeedsPrompt, "Completion")),
    streaming(
        post("/v1/chat/completions", "Answers a conversation", kOfChat, kNeedsMessages, "ChatCompletion")),
    streaming(post("/v1/responses", "OpenAI Responses, stateless", kOfResponses, kNeedsInput, "Response")),
    with_error(streaming(post("/v1/messages", "Anthropic Messages", kOfMessages, kNeedsMaxTokens, "Message")),
               "MessagesError"),
    with_error(post("/v1/messages/count_tokens", "Tokens of an Anthropic request", kOfMessages,
                    kNeedsMessages, "CountedTokens"),
               "MessagesError"),
    streaming(post("/infill", "Fills the gap between two texts, as llama-server; n is 1", kOfInfill,
                   kNeedsSides, "Infill")),
    streaming(post("/generate", "Continues a text, in the simplest shape; n is 1", kOfGenerate, kNeedsPrompt,
                   "Generated")),
    post("/tokenize", "Text or messages to token ids", kOfTokenize, {}, "Tokens"),
    post("/detokenize", "Token ids to text", kOfDetokenize, kNeedsTokens, "Prompt"),
    post("/apply-template", "Messages to the prompt", kOfTemplate, kNeedsMessages, "Prompt"),
    post("/v1/embeddings", "Vectors of texts", kOfEmbeddings, kNeedsInput, "Embeddings"),
    post("/embeddings", "The same as /v1/embeddings", kOfEmbeddings, kNeedsInput, "Embeddings"),
    post("/rerank", "Documents by their closeness to a query", kOfRerank, kNeedsDocuments, "Ranking"),
    post("/v1/rerank", "The same as /rerank", kOfRerank, kNeedsDocuments, "Ranking"),
    post("/v2/rerank", "The same as /rerank", kOfRerank, kNeedsDocuments, "Ranking"),
    post("/score", "Closeness of pairs of texts", kOfScore, kNeedsTexts, "Scores"),
    post("/v1/score", "The same as /score", kOfScore, kNeedsTexts, "Scores"),
    as_form(with_body(stored("POST", "/v1/files", "Keeps a file", "File"), kOfFile, kNeedsFile)),
    with_query(stored("GET", "/v1/files", "Lists files", "FileList"), kOfFilePage),
    stored("GET", "/v1/files/{id}", "One file, without its content", "File"),
    stored("DELETE", "/v1/files/{id}", "Removes a file that no batch needs", "DeletedFile"),
    bytes(stored("GET", "/v1/files/{id}/content", "The content of a file", "")),
    with_body(stored("POST", "/v1/batches", "Runs the requests of a file when nothing else runs", "Batch"),
              kOfBatch, kNeedsBatch),
    with_query(stored("GET", "/v1/batches", "Lists batches", "BatchList"), kOfBatchPage),
    stored("GET", "/v1/batches/{id}", "One batch", "Batch"),
    stored("POST", "/v1/batches/{id}/cancel", "Ends a batch; what is answered stays", "Batch"),
    get("/v1/models", "The models of this server", "ModelList"),
    get("/v1/models/{id}", "One model", "Model"),
    get("/health", "Ready for requests? 503 while loading or draining", "Status"),
    get("/health/ready", "The same as /health", "Status"),
    get("/health/live", "Is the process alive?", "Status"),
    get("/version", "The version of the server", "Version"),
    ContractRoute{
        "GET", "/metrics", "Prometheus metrics", {}, {}, AnswerKind::kText, "", kError, kGetStatuses},
    get("/debug/blocks", "The KV blocks at a glance", "Blocks"),
    get("/openapi.json", "This document", "Document"),
};

constexpr MissingPart kMissing[] = {
    {"/v1/ws", "WebSocket"},
    {"pagoda.v1.LLMService", "gRPC"},
};

}  // namespace

std::span<const ContractRoute> contract_routes() {
  return kRoutes;
}
std::span<const FieldGroup* const> contract_groups() {
  return kAllGroups;
}
std::span<const MissingPart> contract_missing() {
  return kMissing;
}

}  // namespace pagoda::openai
