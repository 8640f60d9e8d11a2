//! Keeps text of users from being read as control tokens.
//!
//! A mark is one of Unicode's noncharacters. Before a template is rendered, one is put into every control
//! token's text that a string of the context contains, and into what could become one together with the
//! text behind the string. The tokenizer then finds control tokens only where the template itself wrote
//! them, and takes the marks out.
use std::collections::HashSet;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind};
use anyhow::{bail, Result};
use serde_json::{Map, Value};

/// U+FDD0..U+FDEF never stand for a character and are not for interchange (Unicode 15, 23.7).
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Context entries that name control tokens for the template's own use.
const TOKEN_NAMES: [&str; 5] = ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token"];

/// The texts of a tokenizer's control tokens.
pub struct ControlTexts {
    finder: AhoCorasick,
    /// Every proper beginning of one of them.
    beginnings: HashSet<String>,
    longest: usize,
}

fn width_of_first(text: &str) -> usize {
    text.chars().next().map_or(1, char::len_utf8)
}

impl ControlTexts {
    /// Tokens of one character cannot be marked and are left out.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Result<ControlTexts> {
        let texts: Vec<&str> = texts.filter(|text| text.chars().count() > 1).collect();
        let mut beginnings = HashSet::new();
        for text in &texts {
            beginnings.extend(text.char_indices().skip(1).map(|(end, _)| text[..end].to_owned()));
        }
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&texts)?;
        Ok(ControlTexts { finder, beginnings, longest })
    }

    /// Where in `text` marks have to go, ascending.
    fn mark_positions(&self, text: &str) -> Vec<usize> {
        let mut positions = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let input = Input::new(text).anchored(Anchored::No).range(start..);
            let Some(found) = self.finder.find(input) else { break };
            // Behind the first character, so that control tokens inside of this one are found as well.
            start = found.start() + width_of_first(&text[found.start()..]);
            positions.push(start);
        }
        // Templates trim, so what counts as the end of the string is not certain.
        self.add_beginnings(text, &mut positions);
        self.add_beginnings(text.trim_end(), &mut positions);
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// A control token's beginning at the end of `text`: what follows may complete it.
    fn add_beginnings(&self, text: &str, positions: &mut Vec<usize>) {
        let earliest = text.len().saturating_sub(self.longest);
        for (offset, c) in text.char_indices().rev().take_while(|&(offset, _)| offset >= earliest) {
            if self.beginnings.contains(&text[offset..]) {
                positions.push(offset + c.len_utf8());
            }
        }
    }

    fn marked(&self, text: &str, mark: char) -> Option<String> {
        let positions = self.mark_positions(text);
        if positions.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(text.len() + positions.len() * mark.len_utf8());
        let mut last = 0;
        for position in positions {
            out.push_str(&text[last..position]);
            out.push(mark);
            last = position;
        }
        out.push_str(&text[last..]);
        Some(out)
    }

    fn mark_value(&self, value: &mut Value, mark: char) -> bool {
        match value {
            Value::String(text) => match self.marked(text, mark) {
                Some(marked) => {
                    *text = marked;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                items.iter_mut().fold(false, |any, item| self.mark_value(item, mark) || any)
            }
            Value::Object(entries) => self.mark_entries(entries, mark),
            _ => false,
        }
    }

    fn mark_entries(&self, entries: &mut Map<String, Value>, mark: char) -> bool {
        let mut any = false;
        for value in entries.values_mut() {
            any |= self.mark_value(value, mark);
        }
        if entries.keys().any(|key| !self.mark_positions(key).is_empty()) {
            any = true;
            let old = std::mem::take(entries);
            entries
                .extend(old.into_iter().map(|(key, value)| (self.marked(&key, mark).unwrap_or(key), value)));
        }
        any
    }

    /// Marks the strings of a template's context. Returns the mark when there was something to mark.
    /// `json`: the context's text, in which the mark must not occur.
    pub fn mark_context(&self, context: &mut Value, json: &str) -> Result<Option<char>> {
        let Value::Object(entries) = context else { return Ok(None) };
        let json_lower = json.to_ascii_lowercase();
        let is_free = |mark: &char| !json.contains(*mark) && !json_lower.contains(&escaped(*mark));
        let Some(mark) = MARKS.into_iter().find(is_free) else {
            bail!("the conversation contains all of Unicode's noncharacters U+FDD0 to U+FDEF");
        };
        let mut any = false;
        for (name, value) in entries.iter_mut() {
            if !TOKEN_NAMES.contains(&name.as_str()) {
                any |= self.mark_value(value, mark);
            }
        }
        Ok(any.then_some(mark))
    }
}

/// As JSON text writes it when it keeps to ASCII.
fn escaped(mark: char) -> String {
    format!("\\u{:04x}", mark as u32)
}

/// The text without its marks. A template's `tojson(ensure_ascii=true)` has written them as escapes: see
/// `unescape`.
pub fn without_marks(text: &str, mark: char) -> String {
    text.replace(mark, "")
}

/// Turns marks that a template wrote as JSON escapes back into marks.
pub fn unescape(text: String, mark: char) -> String {
    let escape = escaped(mark);
    if text.contains(&escape) {
        return text.replace(&escape, &mark.to_string());
    }
    text
}
