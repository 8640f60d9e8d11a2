//! Jinja2's filters over lines of text where minijinja's differ.
use minijinja::value::{Kwargs, Value};
use minijinja::Error;

use crate::python::fail;

/// The widest indentation by number; more would only fill the memory.
const MAX_INDENT: i64 = 1024;

fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// str.splitlines()
fn split_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((end, c)) = rest.char_indices().find(|&(_, c)| ends_line(c)) {
        lines.push(&rest[..end]);
        let length = if rest[end..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        rest = &rest[end + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// indent(width=4, first=False, blank=False); the width may be a string.
pub fn indent(
    text: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, Error> {
    let width = width.or(named.get::<Option<Value>>("width")?);
    let first = first.or(named.get::<Option<bool>>("first")?).unwrap_or(false);
    let blank = blank.or(named.get::<Option<bool>>("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let indentation = match width {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(given) => given.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(width)?.clamp(0, MAX_INDENT)).unwrap_or(0)),
        },
    };
    let text = text.as_str().ok_or_else(|| fail("indent: only strings can be indented"))?;
    // Jinja2 adds a line break first, so that a text which ends with one keeps it.
    let source = format!("{text}\n");
    let mut out = String::with_capacity(source.len());
    for (index, line) in split_lines(&source).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
        if is_indented {
            out.push_str(&indentation);
        }
        out.push_str(line);
    }
    Ok(out)
}
