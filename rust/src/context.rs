//! The context of a template: JSON in which key order and whole numbers of any size survive.
use anyhow::{Context, Result};
use minijinja::value::{Serde, Value};
use serde_json::{json, Value as Json};

/// The longest number that a JSON parser with 64-bit integers surely keeps.
const SAFE_DIGITS: usize = 18;

/// Stands for a whole number of more digits: {BIG_INTEGER: "digits"}. No key of a client starts with a
/// noncharacter that is not escaped and followed by this word by accident, and one that did would only turn
/// its own digits into a number.
const BIG_INTEGER: &str = "\u{fdef}integer";

/// The end of the string literal whose quote is at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// serde_json reads whole numbers beyond 64 bits as floats, Python does not. Wraps them; None when there
/// are none.
fn wrap_big_integers(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                let number = &json[start..at];
                let digits = number.strip_prefix('-').unwrap_or(number);
                let is_whole = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
                if is_whole && digits.len() > SAFE_DIGITS {
                    out.push_str(&json[copied..start]);
                    out.push_str(&json!({ BIG_INTEGER: number }).to_string());
                    copied = at;
                }
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&json[copied..]);
    Some(out)
}

pub fn parse_context(json: &str) -> Result<Json> {
    let wrapped = wrap_big_integers(json);
    let text = wrapped.as_deref().unwrap_or(json);
    let context: Json = serde_json::from_str(text).context("the chat template's context")?;
    anyhow::ensure!(context.is_object(), "the chat template's context must be a JSON object");
    Ok(context)
}

fn big_integer(digits: &str) -> Value {
    // Numbers beyond 128 bits are rounded: no tool schema has them.
    digits
        .parse::<i128>()
        .map(Value::from)
        .unwrap_or_else(|_| Value::from(digits.parse::<f64>().unwrap_or(0.0)))
}

pub fn to_value(json: &Json) -> Value {
    match json {
        Json::Array(items) => Value::from(items.iter().map(to_value).collect::<Vec<_>>()),
        Json::Object(entries) => match entries.get(BIG_INTEGER) {
            Some(Json::String(digits)) if entries.len() == 1 => big_integer(digits),
            _ => Value::from_pairs(entries.iter().map(|(key, value)| (key.as_str(), to_value(value)))),
        },
        scalar => Value::from(Serde(scalar)),
    }
}
