//! Chat templates: minijinja with the settings of transformers' `apply_chat_template`, within limits.
use std::io::{self, Write};

use anyhow::{anyhow, Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use serde_json::json;

use crate::clock::strftime_now;
use crate::context::to_value;
use crate::python;
use crate::rewrite::rewrite;
use crate::tojson::tojson;

/// One unit is one instruction or 64 bytes of data that a template makes, so this bounds its memory to
/// about 128 MB too. The costliest of the published templates that were tried spends 2,700 units on seven
/// messages with two tools. Not covered, as minijinja 3.1 does not count it: adding a list to itself more
/// than 32 times over.
const FUEL: u64 = 2_000_000;

/// Values that a template nests as deep as its fuel allows (half a million levels) are printed, compared
/// and freed by recursion, at some hundred bytes of stack a level. The stack is address space; only what is
/// used becomes memory.
const STACK_BYTES: usize = 512 << 20;

/// A prompt of 64 MiB is beyond any context length.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

const NAME: &str = "chat template";

pub struct ChatTemplate {
    environment: Environment<'static>,
    pub wants_content_parts: bool,
}

/// The message of `raise_exception`, kept apart so that it reaches the client as the template wrote it.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// One line for a person: raise_exception's own message, else what is wrong and on which line.
fn describe(error: &Error) -> anyhow::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref::<Raised>() {
            return anyhow!("{message}");
        }
        cause = current.source();
    }
    let place = error.line().map_or(String::new(), |line| format!(", line {line}"));
    let detail = error.detail().map_or(String::new(), |detail| format!(": {detail}"));
    anyhow!("{NAME}{place}: {}{detail}", error.kind())
}

fn new_environment() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    python::install(&mut environment);
    environment.add_function("raise_exception", |message: Value| raise_exception(&message));
    environment.add_function("strftime_now", |format: String| strftime_now(&format));
    environment.add_filter("tojson", tojson);
    Ok(environment)
}

/// A growing text that refuses to grow beyond its limit.
#[derive(Default)]
struct BoundedOutput {
    bytes: Vec<u8>,
}

impl Write for BoundedOutput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + data.len() > MAX_OUTPUT_BYTES {
            return Err(io::Error::other(format!(
                "the output exceeds the limit of {MAX_OUTPUT_BYTES} bytes"
            )));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A conversation whose last message has its content as a list of parts.
fn conversations_with_parts(text: &str) -> [serde_json::Value; 3] {
    let user = json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let with_messages = |messages: serde_json::Value| {
        json!({"messages": messages, "tools": null, "documents": null, "add_generation_prompt": true,
               "bos_token": "", "eos_token": ""})
    };
    [
        with_messages(json!([user])),
        with_messages(json!([{"role": "system", "content": "s"}, user])),
        with_messages(json!([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, user])),
    ]
}

impl ChatTemplate {
    pub fn compile(source: &str) -> Result<ChatTemplate> {
        // Jinja2's lexer knows one kind of line break.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let mut environment = new_environment()?;
        environment.add_template_owned(NAME, rewrite(&source)).map_err(|e| describe(&e))?;
        let mut template = ChatTemplate { environment, wants_content_parts: false };
        template.wants_content_parts = template.shows_text_of_parts();
        Ok(template)
    }

    pub fn render(&self, context: &serde_json::Value) -> Result<String> {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("template".into()).stack_size(STACK_BYTES);
            let thread = builder
                .spawn_scoped(scope, || self.render_here(context))
                .context("rendering the chat template")?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn render_here(&self, context: &serde_json::Value) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(|e| describe(&e))?;
        let mut output = BoundedOutput::default();
        template.render_captured_to(to_value(context), &mut output).map_err(|e| describe(&e))?;
        String::from_utf8(output.bytes).context("the chat template's output is not valid UTF-8")
    }

    /// Tries the template on a list of parts: one that iterates over them shows their text alone, others
    /// show the list as Python prints it, or fail.
    fn shows_text_of_parts(&self) -> bool {
        const TEXT: &str = "pagoda-content-part";
        conversations_with_parts(TEXT).iter().any(|context| {
            let output = self.render(context).unwrap_or_default();
            output.contains(TEXT) && !output.contains("'type'") && !output.contains("\"type\"")
        })
    }
}
