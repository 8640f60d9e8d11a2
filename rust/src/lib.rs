//! Tokenizers, chat templates and grammars behind a small C ABI (include/pagoda_text.h).
//!
//! `tokenizer`, `decoding` and `stream` wrap the Hugging Face tokenizers crate; `template`, `rewrite`,
//! `python`, `text_filters`, `tojson` and `clock` make minijinja behave as Jinja2 does inside transformers;
//! `chat` combines the two; `grammar` constrains outputs. The `*_abi` files hold the C functions and nothing
//! else; `abi` has what they share.
mod abi;
mod chat;
mod clock;
mod context;
mod decoding;
mod grammar;
mod grammar_abi;
mod marks;
mod python;
mod rewrite;
mod stream;
mod template;
mod template_abi;
mod text_filters;
mod tojson;
mod tokenizer;
mod tokenizer_abi;
