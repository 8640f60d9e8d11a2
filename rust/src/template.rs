//! Chat templates: minijinja with the settings of transformers' `apply_chat_template`, within limits.
use std::io::{self, Write};

use anyhow::{anyhow, Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use serde_json::json;

use crate::clock::strftime_now;
use crate::python;
use crate::rewrite::rewrite;
use crate::tojson::tojson;

/// One unit is one instruction or 64 bytes of data that a template makes, so this also bounds its memory to 320 MB. The
/// costliest of the published templates that were tried spends some thousand units on a conversation of ten messages.
const FUEL: u64 = 5_000_000;

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
        let template = self.environment.get_template(NAME).map_err(|e| describe(&e))?;
        let mut output = BoundedOutput::default();
        template.render_captured_to(Value::from(Serde(context)), &mut output).map_err(|e| describe(&e))?;
        String::from_utf8(output.bytes).context("the chat template's output is not valid UTF-8")
    }

    /// Tries the template on a list of parts: one that iterates over them shows their text alone, others show the list
    /// as Python prints it, or fail.
    fn shows_text_of_parts(&self) -> bool {
        const TEXT: &str = "pagoda-content-part";
        conversations_with_parts(TEXT).iter().any(|context| {
            let output = self.render(context).unwrap_or_default();
            output.contains(TEXT) && !output.contains("'type'") && !output.contains("\"type\"")
        })
    }
}

pub fn parse_context(json: &str) -> Result<serde_json::Value> {
    let context: serde_json::Value = serde_json::from_str(json).context("the chat template's context")?;
    anyhow::ensure!(context.is_object(), "the chat template's context must be a JSON object");
    Ok(context)
}
