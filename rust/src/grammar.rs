//! Grammars of constrained output: llguidance over our own tokenizer's token bytes.
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use llguidance::api::{StopReason, TopLevelGrammar};
use llguidance::{regex_to_lark, Matcher, ParserFactory};
use serde_json::Value;
use toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

use crate::decoding::DecodingKind;
use crate::tokenizer::TextTokenizer;

const MAX_TEXT_BYTES: usize = 512 << 10;
/// The parsers of llguidance call themselves for each bracket.
const MAX_NESTING: usize = 200;
const MAX_CHOICES: usize = 4096;
/// Of all numbers at `multipleOf` in a schema, decimals taken as whole numbers: the lexer has a state for
/// each remainder, and nothing else bounds them.
const MAX_COMMON_MULTIPLE: u64 = 10_000;
/// Alternatives at one place; hundreds of optional properties need more than llguidance's 2000.
const MAX_ITEMS_IN_ROW: usize = 20_000;
/// For one mask; it takes a few milliseconds.
const MAX_ITEMS_IN_STEP: usize = 100_000;
const COMPILE_STACK_BYTES: usize = 256 << 20;
const COMPILE_TIME: Duration = Duration::from_secs(1);
/// Compilations that were given up on and have not ended yet. They cannot be stopped.
const MAX_OVERDUE: usize = 2;
/// A state costs one to two kilobytes.
const MAX_LEXER_STATES: usize = 50_000;
/// Between two parts of a JSON text; without an end a model could write spaces for ever.
const JSON_WHITESPACE: &str = r"[\x20\x0A\x0D\x09]{1,20}";

static OVERDUE: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy)]
pub enum GrammarKind {
    JsonSchema,
    Regex,
    Choice,
    Lark,
}

#[derive(Clone)]
pub struct GrammarFactory {
    inner: Arc<ParserFactory>,
}

pub struct GrammarMatcher {
    inner: Matcher,
    words: usize,
}

/// The bytes that llguidance knows a token by. Control tokens, and added ones that look like them, are no
/// text: a Lark grammar names them, `<|im_end|>` or `<tool_call>`.
fn token_words(tokenizer: &TextTokenizer, width: usize) -> Vec<Vec<u8>> {
    let added = tokenizer.inner.get_added_tokens_decoder();
    let special = |name: &str| [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    let word = |id: u32| match added.get(&id) {
        Some(token) if token.special || (token.content.starts_with('<') && token.content.ends_with('>')) => {
            special(&token.content)
        }
        _ => tokenizer.table.bytes(id).to_vec(),
    };
    (0..width as u32).map(word).collect()
}

impl GrammarFactory {
    /// `width`: ids of the logits, which may be more than the vocabulary's. Ids without text stay forbidden.
    pub fn new(tokenizer: &TextTokenizer, width: usize, end_ids: &[u32]) -> Result<GrammarFactory> {
        ensure!(
            tokenizer.table.kind != DecodingKind::Opaque,
            "the bytes of this model's tokens are unknown, so that its output cannot be constrained"
        );
        ensure!(!end_ids.is_empty(), "the model has no end token, so that its output cannot be constrained");
        let width = width.max(tokenizer.table.size());
        ensure!(end_ids.iter().all(|&id| (id as usize) < width), "an end token is out of vocabulary");
        let words = token_words(tokenizer, width);
        let info = TokRxInfo::new(width as u32, end_ids[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(end_ids);
        // It doesn't claim to tokenize like the model, so that masks allow every spelling of a text.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&env)?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
        limits.max_items_in_row = MAX_ITEMS_IN_ROW;
        limits.step_max_items = MAX_ITEMS_IN_STEP;
        Ok(GrammarFactory { inner: Arc::new(factory) })
    }

    /// On a thread of its own: a text can be made to need a deep stack or to take long.
    pub fn compile(&self, kind: GrammarKind, text: &str) -> Result<GrammarMatcher> {
        ensure!(
            text.len() <= MAX_TEXT_BYTES,
            "it has {} bytes; at most {MAX_TEXT_BYTES} are allowed",
            text.len()
        );
        ensure!(OVERDUE.load(Ordering::Relaxed) < MAX_OVERDUE, "too many grammars are being compiled");
        let (factory, text) = (self.clone(), text.to_owned());
        let (sender, receiver) = channel();
        let thread_id = Arc::new(AtomicI32::new(0));
        let own_id = thread_id.clone();
        let work = move || {
            own_id.store(unsafe { libc::gettid() }, Ordering::Relaxed);
            let matcher =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| factory.compile_here(kind, &text)));
            let matcher = matcher.unwrap_or_else(|_| Err(anyhow!("it cannot be compiled")));
            if sender.send(matcher).is_err() {
                OVERDUE.fetch_sub(1, Ordering::Relaxed);
            }
        };
        thread::Builder::new().name("grammar".into()).stack_size(COMPILE_STACK_BYTES).spawn(work)?;
        match receiver.recv_timeout(COMPILE_TIME) {
            Ok(matcher) => matcher,
            Err(RecvTimeoutError::Disconnected) => bail!("it cannot be compiled"),
            Err(RecvTimeoutError::Timeout) => {
                OVERDUE.fetch_add(1, Ordering::Relaxed);
                // It may have ended just now, and then nobody else takes the count back.
                if let Ok(matcher) = receiver.try_recv() {
                    OVERDUE.fetch_sub(1, Ordering::Relaxed);
                    return matcher;
                }
                step_aside(thread_id.load(Ordering::Relaxed));
                bail!("it takes longer than {} s to compile", COMPILE_TIME.as_secs())
            }
        }
    }

    fn compile_here(&self, kind: GrammarKind, text: &str) -> Result<GrammarMatcher> {
        let grammar = match kind {
            GrammarKind::JsonSchema => TopLevelGrammar::from_json_schema(json_schema(text)?),
            GrammarKind::Regex => {
                check_nesting(text)?;
                TopLevelGrammar::from_lark(format!("start: /{}/", regex_to_lark(checked_regex(text)?, "")))
            }
            GrammarKind::Choice => TopLevelGrammar::from_lark(choice(text)?),
            GrammarKind::Lark => {
                check_nesting(text)?;
                TopLevelGrammar::from_lark(text.to_owned())
            }
        };
        let words = self.inner.tok_env().tok_trie().vocab_size().div_ceil(32);
        let inner = Matcher::new(self.inner.create_parser(grammar));
        if let Some(error) = inner.get_error() {
            bail!("{}", one_line(&error));
        }
        let mut matcher = GrammarMatcher { inner, words };
        // What no text matches would end a stream with an error later.
        matcher.mask().map_err(|error| match error.to_string() {
            reason if reason.contains(&format!("{:?}", StopReason::NoExtensionBias)) => {
                anyhow!("nothing matches it")
            }
            _ => error.context("nothing matches it"),
        })?;
        Ok(matcher)
    }
}

/// What nobody waits for any more runs only when nothing else wants the CPU.
fn step_aside(thread_id: i32) {
    const LOWEST: i32 = 19;
    if thread_id > 0 {
        unsafe { libc::setpriority(libc::PRIO_PROCESS, thread_id as libc::id_t, LOWEST) };
    }
}

/// The parser's state and the rest of the message are of no use to a client, nor are options of the library.
fn one_line(error: &str) -> String {
    let text = error.lines().next().unwrap_or_default();
    let text = text.split(" Enable '").next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json_schema(text: &str) -> Result<Value> {
    let schema: Value = serde_json::from_str(text).context("it is not JSON")?;
    common_multiple(&schema, 1)?;
    check_bounds(&schema)?;
    let mut schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(true) => serde_json::Map::new(),
        _ => bail!("a JSON schema is an object"),
    };
    schema.insert("x-guidance".into(), serde_json::json!({ "whitespace_pattern": JSON_WHITESPACE }));
    Ok(Value::Object(schema))
}

/// The grammar of a number is made from bounds that are doubles.
fn check_bounds(schema: &Value) -> Result<()> {
    const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    const MAX_EXACT: u64 = 1 << 53;
    match schema {
        Value::Array(items) => items.iter().try_for_each(check_bounds),
        Value::Object(members) => members.iter().try_for_each(|(name, value)| match value {
            Value::Number(number) if BOUNDS.contains(&name.as_str()) => {
                let exact = match number.as_i64() {
                    Some(number) => number.unsigned_abs() <= MAX_EXACT,
                    None => number.as_f64().is_some_and(|number| number.abs() < MAX_EXACT as f64),
                };
                ensure!(exact, "{name} is {number}; bounds from -2^53 to 2^53 are exact");
                Ok(())
            }
            _ => check_bounds(value),
        }),
        _ => Ok(()),
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Of `so_far` and what stands at `multipleOf` anywhere in the schema.
fn common_multiple(schema: &Value, so_far: u64) -> Result<u64> {
    let mut multiple = so_far;
    match schema {
        Value::Array(items) => {
            for item in items {
                multiple = common_multiple(item, multiple)?;
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let Value::Number(number) = value else {
                    multiple = common_multiple(value, multiple)?;
                    continue;
                };
                if name != "multipleOf" {
                    continue;
                }
                let text = number.to_string();
                let text = text.strip_suffix(".0").unwrap_or(&text).replace('.', "");
                let number = text.parse::<u64>().unwrap_or(u64::MAX).max(1);
                ensure!(
                    number <= MAX_COMMON_MULTIPLE,
                    "multipleOf has too many digits; {MAX_COMMON_MULTIPLE} is the most, without the point"
                );
                multiple = multiple / greatest_common_divisor(multiple, number) * number;
                ensure!(
                    multiple <= MAX_COMMON_MULTIPLE,
                    "the numbers at multipleOf have a common multiple above {MAX_COMMON_MULTIPLE}"
                );
            }
        }
        _ => {}
    }
    Ok(multiple)
}

/// Without anchors. The library's own check knows neither a lone backslash nor a place.
fn checked_regex(regex: &str) -> Result<&str> {
    let bare = unanchored(regex)?;
    if let Err(error) = regex_syntax::ast::parse::Parser::new().parse(bare) {
        let skipped = regex.find(bare).unwrap_or_default();
        let place = regex[..skipped + error.span().start.offset].chars().count() + 1;
        bail!("{} (at character {place})", error.kind());
    }
    Ok(bare)
}

/// The whole output matches anyway. Anchors anywhere else are left to be refused.
fn unanchored(regex: &str) -> Result<&str> {
    let start = regex.strip_prefix('^').unwrap_or(regex);
    let escapes = start.strip_suffix('$').map_or(0, |rest| rest.len() - rest.trim_end_matches('\\').len());
    let bare = if escapes % 2 == 0 { start.strip_suffix('$').unwrap_or(start) } else { start };
    ensure!(bare.len() == regex.len() || !has_top_level_or(bare), "an anchor stands beside an alternative");
    Ok(bare)
}

fn has_top_level_or(regex: &str) -> bool {
    let (mut depth, mut in_class, mut escaped) = (0usize, false, false);
    for c in regex.chars() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

fn choice(text: &str) -> Result<String> {
    let choices: Vec<String> = serde_json::from_str(text).context("it is not a list of strings")?;
    ensure!(!choices.is_empty(), "it has no choices");
    ensure!(choices.len() <= MAX_CHOICES, "it has {} choices; at most {MAX_CHOICES}", choices.len());
    let quoted: Vec<String> = choices.iter().map(|c| serde_json::to_string(c)).collect::<Result<_, _>>()?;
    // A terminal: the lexer tells thousands of them apart more easily than the parser does.
    Ok(format!("start: CHOICE\nCHOICE: {}", quoted.join(" | ")))
}

/// Counts brackets outside of quoted text and character classes.
fn check_nesting(text: &str) -> Result<()> {
    let (mut depth, mut in_class, mut escaped) = (0usize, false, false);
    for c in text.chars() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            ']' => in_class = false,
            '\n' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        ensure!(depth <= MAX_NESTING, "it is nested deeper than {MAX_NESTING} levels");
    }
    Ok(())
}

impl GrammarMatcher {
    fn mask(&mut self) -> Result<toktrie::SimpleVob> {
        self.inner.compute_mask_or_eos().map_err(|error| anyhow!("{}", one_line(&error.to_string())))
    }

    /// One bit for each id that may come next; ids beyond the vocabulary are left out.
    pub fn fill_mask(&mut self, out: &mut [u32]) -> Result<()> {
        let mask = self.mask()?;
        let count = out.len().min(self.words);
        out[..count].copy_from_slice(&mask.as_slice()[..count]);
        out[count..].fill(0);
        Ok(())
    }

    /// True when nothing can follow.
    pub fn consume(&mut self, id: u32) -> Result<bool> {
        self.inner.consume_token(id).map_err(|error| anyhow!("{}", one_line(&error.to_string())))?;
        Ok(self.inner.is_stopped())
    }

    /// Shares nothing with this one, so that both can be used at once.
    pub fn fork(&self) -> GrammarMatcher {
        GrammarMatcher { inner: self.inner.deep_clone(), words: self.words }
    }
}
