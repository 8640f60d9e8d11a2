// C ABI of the Rust library in rust/: tokenizers, chat templates and grammars.
//
// Text is UTF-8 as (pointer, bytes), never zero-terminated. Functions that can fail return a pt_status; the
// reason of the calling thread's last failure is in pt_last_error(). Objects are immutable and may be
// shared by threads, streams and matchers excepted. What a function hands out through a pt_text or pt_ids is
// owned by the caller and freed with pt_*_free.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  PT_OK = 0,
  PT_ERROR = 1,  // the input is at fault
  PT_PANIC = 2,  // the library is at fault; it stays usable
} pt_status;

typedef struct pt_tokenizer pt_tokenizer;
typedef struct pt_stream pt_stream;
typedef struct pt_template pt_template;

typedef struct {
  char* data;
  size_t size;
  size_t capacity;
} pt_text;

typedef struct {
  uint32_t* data;
  size_t size;
  size_t capacity;
} pt_ids;

// Valid until the calling thread's next failure; "" before the first.
const char* pt_last_error(void);
void pt_text_free(pt_text text);
void pt_ids_free(pt_ids ids);

// The text of a tokenizer.json; its truncation and padding settings are dropped.
pt_status pt_tokenizer_load(const char* json, size_t json_size, pt_tokenizer** out);
void pt_tokenizer_free(pt_tokenizer* tokenizer);
// One more than the highest id.
size_t pt_tokenizer_vocab_size(const pt_tokenizer* tokenizer);
enum {
  PT_ADD_SPECIAL = 1,    // BOS and the like, as the post-processor says
  PT_PARSE_SPECIAL = 2,  // text of control tokens is the tokens
};
pt_status pt_tokenizer_encode(const pt_tokenizer* tokenizer, const char* text, size_t text_size,
                              uint32_t flags, pt_ids* out);
pt_status pt_tokenizer_decode(const pt_tokenizer* tokenizer, const uint32_t* ids, size_t num_ids,
                              int skip_special, pt_text* out);
// Borrowed from the tokenizer; empty for an id without an entry.
const char* pt_tokenizer_token_bytes(const pt_tokenizer* tokenizer, uint32_t id, size_t* size);
pt_status pt_tokenizer_token_string(const pt_tokenizer* tokenizer, uint32_t id, pt_text* out);
// -1: no such token.
int64_t pt_tokenizer_token_to_id(const pt_tokenizer* tokenizer, const char* token, size_t token_size);
int pt_tokenizer_is_special(const pt_tokenizer* tokenizer, uint32_t id);

// `context`: ids before the output. The stream keeps its own reference to the tokenizer.
pt_stream* pt_stream_new(const pt_tokenizer* tokenizer, const uint32_t* context, size_t num_context,
                         int skip_special);
pt_status pt_stream_push(pt_stream* stream, uint32_t id, pt_text* out);
pt_status pt_stream_finish(pt_stream* stream, pt_text* out);
void pt_stream_free(pt_stream* stream);

pt_status pt_template_compile(const char* source, size_t source_size, pt_template** out);
void pt_template_free(pt_template* chat_template);
int pt_template_wants_content_parts(const pt_template* chat_template);
pt_status pt_template_render(const pt_template* chat_template, const char* context, size_t context_size,
                             pt_text* out);
// Renders and encodes; control tokens come from the template's own text only.
typedef struct {
  pt_text text;
  pt_ids ids;
} pt_prompt;
pt_status pt_render_chat(const pt_template* chat_template, const pt_tokenizer* tokenizer, const char* context,
                         size_t context_size, pt_prompt* out);

// Grammars of constrained output. A factory keeps nothing of the tokenizer; `logits_width` ids are masked.
typedef struct pt_grammar_factory pt_grammar_factory;
typedef struct pt_matcher pt_matcher;
typedef enum { PT_JSON_SCHEMA = 0, PT_REGEX = 1, PT_CHOICE = 2, PT_LARK = 3 } pt_grammar_kind;
pt_status pt_grammar_factory_new(const pt_tokenizer* tokenizer, size_t logits_width, const uint32_t* end_ids,
                                 size_t num_end_ids, pt_grammar_factory** out);
void pt_grammar_factory_free(pt_grammar_factory* factory);
// Compiles on a thread with a large stack, for a second at most.
pt_status pt_matcher_new(const pt_grammar_factory* factory, pt_grammar_kind kind, const char* text,
                         size_t text_size, pt_matcher** out);
// A copy that shares nothing.
pt_status pt_matcher_fork(const pt_matcher* matcher, pt_matcher** out);
// Bit i of word i / 32 is set when id i may come next; end ids where the grammar accepts. A matcher is of no
// use after an error.
pt_status pt_matcher_mask(pt_matcher* matcher, uint32_t* words, size_t num_words);
// `complete`: nothing can follow.
pt_status pt_matcher_consume(pt_matcher* matcher, uint32_t id, int* complete);
void pt_matcher_free(pt_matcher* matcher);

// Tests: strftime_now() shows this instant (seconds since 1970, shown as UTC) from now on in the whole
// process.
void pt_set_clock_for_tests(int64_t unix_seconds);

#ifdef __cplusplus
}
#endif
