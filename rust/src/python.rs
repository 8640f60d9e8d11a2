//! What chat templates use of Python and Jinja2 and minijinja (with its contrib crate) lacks or does
//! otherwise.
use minijinja::value::{from_args, Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib as contrib;

use crate::rewrite::{ITERATED, JOINED};
use crate::text_filters::indent;
use crate::tojson::python_float;

/// The widest string that ljust, center and the like make: a template must not fill the memory with one call.
const MAX_WIDTH: i64 = 1 << 20;

pub fn fail(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

fn list_of(parts: impl IntoIterator<Item = String>) -> Value {
    Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>())
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
    Both,
}

/// `text` filled up to `width` characters on the given side.
fn pad(text: &str, width: i64, fill: char, side: Side) -> String {
    let length = text.chars().count();
    let width = usize::try_from(width.clamp(0, MAX_WIDTH)).unwrap_or(0);
    let missing = width.saturating_sub(length);
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        // CPython's str.center: the odd space goes left when the width is odd.
        Side::Both => missing / 2 + (missing & width & 1),
    };
    let fill_with = |count: usize| fill.to_string().repeat(count);
    format!("{}{}{}", fill_with(left), text, fill_with(missing - left))
}

/// str.rsplit without a separator: at runs of whitespace, at most `max` times.
fn rsplit_whitespace(text: &str, max: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let space = rest.char_indices().rev().find(|(_, c)| c.is_whitespace());
        let Some((position, c)) = space.filter(|_| parts.len() < max) else {
            parts.push(rest.to_owned());
            break;
        };
        parts.push(rest[position + c.len_utf8()..].to_owned());
        rest = rest[..position].trim_end();
    }
    parts.reverse();
    parts
}

fn split(state: &mut State, value: &Value, text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, max, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(given) => Some(given),
        None => named.get::<Option<Value>>("sep")?,
    };
    let max = match max {
        Some(given) => given,
        None => named.get::<Option<i64>>("maxsplit")?.unwrap_or(-1),
    };
    named.assert_all_used()?;
    let limit = usize::try_from(max).unwrap_or(usize::MAX);
    let Some(separator) = separator.filter(|v| !v.is_none()) else {
        if name == "rsplit" {
            return Ok(list_of(rsplit_whitespace(text, limit)));
        }
        let args = if max < 0 { vec![] } else { vec![Value::from(()), Value::from(max)] };
        return contrib::pycompat::unknown_method_callback(state, value, name, &args);
    };
    let separator = separator.as_str().ok_or_else(|| fail("split: the separator must be a string"))?;
    if separator.is_empty() {
        return Err(fail("empty separator"));
    }
    let pieces = limit.saturating_add(1);
    if name == "split" {
        return Ok(list_of(text.splitn(pieces, separator).map(str::to_owned)));
    }
    let mut parts: Vec<String> = text.rsplitn(pieces, separator).map(str::to_owned).collect();
    parts.reverse();
    Ok(list_of(parts))
}

fn partition(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(fail("empty separator"));
    }
    let from_left = name == "partition";
    let found = if from_left { text.split_once(separator) } else { text.rsplit_once(separator) };
    Ok(match found {
        Some((before, after)) => Value::from((before, separator, after)),
        None if from_left => Value::from((text, "", "")),
        None => Value::from(("", "", text)),
    })
}

fn index_of(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (part,): (&str,) = from_args(args)?;
    let found = if name == "index" { text.find(part) } else { text.rfind(part) };
    let byte = found.ok_or_else(|| fail("substring not found"))?;
    Ok(Value::from(text[..byte].chars().count()))
}

fn justify(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<char>) = from_args(args)?;
    let side = match name {
        "ljust" => Side::Right,
        "rjust" => Side::Left,
        _ => Side::Both,
    };
    Ok(Value::from(pad(text, width, fill.unwrap_or(' '), side)))
}

fn zfill(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (width,): (i64,) = from_args(args)?;
    let (sign, digits) = if text.starts_with(['-', '+']) { text.split_at(1) } else { ("", text) };
    let sign_width = i64::from(!sign.is_empty());
    Ok(Value::from(format!("{sign}{}", pad(digits, width.saturating_sub(sign_width), '0', Side::Left))))
}

fn swap_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
    }
    out
}

fn title_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        match (c.is_alphabetic(), in_word) {
            (true, true) => out.extend(c.to_lowercase()),
            (true, false) => out.extend(c.to_uppercase()),
            (false, _) => out.push(c),
        }
        in_word = c.is_alphabetic();
    }
    out
}

/// startswith(prefix, start, end) and endswith, with character positions.
fn starts_or_ends(state: &mut State, text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (part, start, end): (Value, i64, Option<i64>) = from_args(args)?;
    let chars: Vec<char> = text.chars().collect();
    let length = i64::try_from(chars.len()).unwrap_or(i64::MAX);
    let position =
        |i: i64| usize::try_from((if i < 0 { i + length } else { i }).clamp(0, length)).unwrap_or(0);
    let (start, end) = (position(start), end.map_or(chars.len(), position));
    let section = Value::from(chars[start.min(end)..end].iter().collect::<String>());
    contrib::pycompat::unknown_method_callback(state, &section, name, &[part])
}

/// None: not one of ours.
fn string_method(
    state: &mut State,
    value: &Value,
    text: &str,
    name: &str,
    args: &[Value],
) -> Option<Result<Value, Error>> {
    Some(match name {
        "split" | "rsplit" => split(state, value, text, name, args),
        "partition" | "rpartition" => partition(text, name, args),
        "removeprefix" => {
            from_args(args).map(|(p,): (&str,)| Value::from(text.strip_prefix(p).unwrap_or(text)))
        }
        "removesuffix" => {
            from_args(args).map(|(p,): (&str,)| Value::from(text.strip_suffix(p).unwrap_or(text)))
        }
        "index" | "rindex" => index_of(text, name, args),
        "ljust" | "rjust" | "center" => justify(text, name, args),
        "zfill" => zfill(text, args),
        "casefold" => Ok(Value::from(text.to_lowercase())),
        "swapcase" => Ok(Value::from(swap_case(text))),
        "title" => Ok(Value::from(title_case(text))),
        "isdecimal" => Ok(Value::from(!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))),
        "startswith" | "endswith" if args.len() > 1 => starts_or_ends(state, text, name, args),
        _ => return None,
    })
}

fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str().filter(|_| value.kind() == ValueKind::String) {
        if let Some(result) = string_method(state, value, text, name, args) {
            return result;
        }
    }
    match (value.kind(), name) {
        (ValueKind::Seq | ValueKind::Map, "copy") if args.is_empty() => Ok(value.clone()),
        (ValueKind::Seq, "index") => {
            let (wanted,): (Value,) = from_args(args)?;
            let found = value.try_iter()?.position(|item| item == wanted);
            found.map(Value::from).ok_or_else(|| fail("value is not in list"))
        }
        _ => contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Deeper values are printed by minijinja, with its limits.
const MAX_REPR_DEPTH: usize = 64;

/// Whether minijinja prints some number in `value` differently from Python: those with an exponent.
fn has_exponent(value: &Value, depth: usize) -> bool {
    match value.kind() {
        ValueKind::Number if is_float(value) => {
            f64::try_from(value.clone()).is_ok_and(|number| python_float(number).contains('e'))
        }
        ValueKind::Seq | ValueKind::Map if depth < MAX_REPR_DEPTH => {
            let inner = |item: &Value| value.get_item(item).is_ok_and(|v| has_exponent(&v, depth + 1));
            let is_map = value.kind() == ValueKind::Map;
            let Ok(mut items) = value.try_iter() else { return false };
            items.any(|item| if is_map { inner(&item) } else { has_exponent(&item, depth + 1) })
        }
        _ => false,
    }
}

/// Python's repr of lists, dicts and numbers with an exponent somewhere inside.
fn repr(value: &Value, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number if is_float(value) => out.push_str(&python_float(f64::try_from(value.clone())?)),
        ValueKind::Seq if has_exponent(value, 0) => {
            out.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                repr(&item, out)?;
            }
            out.push(']');
        }
        ValueKind::Map if has_exponent(value, 0) => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                repr(&key, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&format!("{value:?}")),
    }
    Ok(())
}

/// Text of values that minijinja prints differently from Python; None for all others.
fn python_text(value: &Value) -> Result<Option<String>, Error> {
    if !is_float(value) && !has_exponent(value, 0) {
        return Ok(None);
    }
    let mut text = String::new();
    repr(value, &mut text)?;
    Ok(Some(text))
}

/// Jinja2's `string` filter.
fn string_filter(value: &Value) -> Result<Value, Error> {
    Ok(Value::from(python_text(value)?.unwrap_or_else(|| value.to_string())))
}

/// What a `for` loop runs over: none is an error, as in Python.
fn iterated(value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(fail("'NoneType' object is not iterable"));
    }
    Ok(value)
}

/// markupsafe.escape
fn escape_html(value: &Value) -> Result<String, Error> {
    let text = value.as_str().ok_or_else(|| fail("only a string can be added to a safe string"))?;
    if value.is_safe() {
        return Ok(text.to_owned());
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Ok(escaped.replace('\'', "&#39;").replace('"', "&#34;"))
}

/// The sum of its operands from left to right, with markupsafe.Markup's rule: what meets a safe string is
/// escaped.
fn joined(operands: Rest<Value>) -> Result<Value, Error> {
    let mut sum: Option<Value> = None;
    for operand in operands.0 {
        sum = Some(match sum {
            None => operand,
            Some(left) if left.is_safe() || operand.is_safe() => {
                Value::from_safe_string(escape_html(&left)? + &escape_html(&operand)?)
            }
            Some(left) => match (left.as_str(), operand.as_str()) {
                (Some(a), Some(b)) => Value::from(format!("{a}{b}")),
                _ => return Err(fail("only strings can be added to strings")),
            },
        });
    }
    Ok(sum.unwrap_or_default())
}

fn add_tests(environment: &mut Environment<'static>) {
    // minijinja iterates over none, Python does not; templates tell a missing list from an empty one by this.
    environment.add_test("iterable", |v: &Value| v.is_undefined() || (!v.is_none() && v.try_iter().is_ok()));
    environment.add_test("sequence", |v: &Value| {
        matches!(v.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
    });
    environment.add_test("callable", |v: &Value| v.kind() == ValueKind::Plain);
}

pub fn install(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    add_tests(environment);
    environment.remove_global("debug");
    // Its indentation makes the output of nested values quadratic before any limit can see it.
    environment.remove_filter("pprint");
    environment.add_function("cycler", |items: Rest<Value>| contrib::globals::cycler(items.0));
    environment.add_function(ITERATED, iterated);
    environment.add_function(JOINED, joined);
    environment.add_function("joiner", contrib::globals::joiner);
    environment.add_filter("truncate", contrib::filters::truncate);
    environment.add_filter("striptags", contrib::filters::striptags);
    environment.add_filter("indent", indent);
    environment.add_filter("string", string_filter);
    environment.set_formatter(|out, state, value| match python_text(value)? {
        Some(text) => Ok(std::fmt::Write::write_str(out, &text)?),
        None => minijinja::escape_formatter(out, state, value),
    });
}
