//! Small changes to a template's source for what minijinja lacks or does otherwise than Jinja2:
//!
//! - `{% generation %}` becomes `{% with %}`: a scope, output unchanged. It marks what a model is trained on.
//! - `{% for x in items %}` becomes `{% for x in __iterated(items) %}`, which refuses none as Python does.
//! - `{{ a|safe + b }}` becomes `{{ __joined(a|safe, b) }}`: Python's Markup escapes what is added to it,
//!   even where autoescaping is off.
//! - `{% do ... %}` becomes an unknown tag, which it is where templates are written for.
//!
//! Lines keep their numbers. What is not understood is left as it is.

/// Names that the rewritten source calls.
pub const ITERATED: &str = "__iterated";
pub const JOINED: &str = "__joined";

/// A token at the top level of an expression: outside of brackets and string literals.
struct Token<'a> {
    start: usize,
    text: &'a str,
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of the string literal that begins at `start`.
fn end_of_literal(source: &str, start: usize) -> usize {
    let bytes = source.as_bytes();
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != bytes[start] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Top-level tokens of `source` from `start` until `close` or the end; words whole, other characters one by
/// one, literals and brackets not at all. The second value is where `close` begins.
fn top_level_tokens<'a>(source: &'a str, start: usize, close: &str) -> (Vec<Token<'a>>, Option<usize>) {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut depth) = (start, 0usize);
    while at < bytes.len() {
        if depth == 0 && bytes[at..].starts_with(close.as_bytes()) {
            return (tokens, Some(at));
        }
        let mut next = at + 1;
        match bytes[at] {
            b'\'' | b'"' => next = end_of_literal(source, at),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            byte if is_word_byte(byte) => {
                while next < bytes.len() && is_word_byte(bytes[next]) {
                    next += 1;
                }
                if depth == 0 {
                    tokens.push(Token { start: at, text: &source[at..next] });
                }
            }
            byte if depth == 0 && !byte.is_ascii_whitespace() => {
                tokens.push(Token { start: at, text: &source[at..next] });
            }
            _ => {}
        }
        at = next;
    }
    (tokens, None)
}

/// The inside of a tag without the signs of whitespace control.
fn without_signs(inside: &str) -> (usize, usize) {
    let start = usize::from(inside.starts_with(['-', '+']));
    let end = inside.len() - usize::from(inside.len() > start && inside.ends_with(['-', '+']));
    (start, end)
}

fn rewrite_for(body: &str) -> Option<String> {
    let (tokens, _) = top_level_tokens(body, 0, "\0");
    let in_index = tokens.iter().position(|token| token.text == "in")?;
    let start = tokens[in_index].start + 2;
    let rest = &tokens[in_index + 1..];
    let end = rest.iter().find(|t| matches!(t.text, "if" | "recursive")).map_or(body.len(), |t| t.start);
    let items = &body[start..end];
    let space = &items[items.trim_end().len()..];
    let items = items.trim();
    let is_tuple = rest.iter().any(|token| token.text == "," && token.start < end);
    let items = if is_tuple { format!("({items})") } else { items.to_owned() };
    Some(format!("{} {ITERATED}({items}){space}{}", &body[..start], &body[end..]))
}

/// Only sums of operands with filters: anything else beside `+` at the top level is left alone.
fn rewrite_sum(body: &str) -> Option<String> {
    let (tokens, _) = top_level_tokens(body, 0, "\0");
    let is_plain = |text: &str| {
        let is_word = text.bytes().all(is_word_byte);
        let is_keyword = matches!(text, "if" | "else" | "and" | "or" | "not" | "in" | "is");
        matches!(text, "+" | "|" | ".") || (is_word && !is_keyword)
    };
    let has_safe = tokens.windows(2).any(|pair| pair[0].text == "|" && pair[1].text == "safe");
    let sums = tokens.iter().filter(|token| token.text == "+").count();
    if !has_safe || sums == 0 || !tokens.iter().all(|token| is_plain(token.text)) {
        return None;
    }
    let mut operands = body.to_owned();
    for token in tokens.iter().filter(|token| token.text == "+") {
        operands.replace_range(token.start..=token.start, ",");
    }
    Some(format!(" {JOINED}({operands}) "))
}

fn rewrite_tag(inside: &str) -> Option<String> {
    let (start, end) = without_signs(inside);
    let body = &inside[start..end];
    let new_body = match body.split_whitespace().next()? {
        "for" => rewrite_for(body)?,
        "do" => body.replacen("do", "__do", 1),
        "generation" => body.replacen("generation", "with", 1),
        "endgeneration" => body.replacen("endgeneration", "endwith", 1),
        _ => return None,
    };
    Some(format!("{}{new_body}{}", &inside[..start], &inside[end..]))
}

fn rewrite_output(inside: &str) -> Option<String> {
    let (start, end) = without_signs(inside);
    Some(format!("{}{}{}", &inside[..start], rewrite_sum(&inside[start..end])?, &inside[end..]))
}

fn is_tag(inside: &str, name: &str) -> bool {
    inside.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+')) == name
}

/// Where the text after `{% raw %}` goes on as a template.
fn end_of_raw(source: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(offset) = source[at..].find("{%") {
        at += offset + 2;
        if let Some(length) = source[at..].find("%}") {
            if is_tag(&source[at..at + length], "endraw") {
                return at + length + 2;
            }
        }
    }
    source.len()
}

pub fn rewrite(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(offset) = source[at..].find('{') {
        let open = at + offset;
        let start = open + 2;
        let kind = source.as_bytes().get(open + 1).copied().unwrap_or(b' ');
        if !matches!(kind, b'#' | b'%' | b'{') {
            out.push_str(&source[at..=open]);
            at = open + 1;
            continue;
        }
        out.push_str(&source[at..start]);
        at = start;
        if kind == b'#' {
            at = source[start..].find("#}").map_or(source.len(), |length| start + length);
            out.push_str(&source[start..at]);
            continue;
        }
        let close = if kind == b'%' { "%}" } else { "}}" };
        let (_, Some(end)) = top_level_tokens(source, start, close) else { continue };
        let inside = &source[start..end];
        let rewritten = if kind == b'%' { rewrite_tag(inside) } else { rewrite_output(inside) };
        out.push_str(rewritten.as_deref().unwrap_or(inside));
        at = end;
        if kind == b'%' && is_tag(inside, "raw") {
            at = end_of_raw(source, end);
            out.push_str(&source[end..at]);
        }
    }
    out.push_str(&source[at..]);
    out
}
