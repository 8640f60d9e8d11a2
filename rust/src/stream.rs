//! Incremental decoding: ids in, certain text out.
use std::sync::Arc;

use anyhow::{anyhow, Result};
use tokenizers::tokenizer::step_decode_stream;

use crate::decoding::DecodingKind;
use crate::tokenizer::TextTokenizer;

/// Turns bytes into text. Bytes that cannot become a character give U+FFFD at once, one for each maximal
/// invalid sequence (Unicode 15, 3.9 D93b); a sequence that may still be completed waits.
#[derive(Default)]
struct Utf8Assembler {
    pending: Vec<u8>,
}

impl Utf8Assembler {
    fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.pending.extend_from_slice(bytes);
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    out.push_str(valid);
                    self.pending.clear();
                    return;
                }
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    out.push_str(&String::from_utf8_lossy(valid));
                    let Some(length) = error.error_len() else {
                        self.pending = bad.to_vec();
                        return;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
    }

    fn finish(&mut self, out: &mut String) {
        if !self.pending.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }
}

/// The crate's sliding window, for decoders that are no concatenation of bytes.
#[derive(Default)]
struct Window {
    ids: Vec<u32>,
    prefix: String,
    prefix_index: usize,
}

/// The ids before the output that the sliding window is given: enough for a word's beginning.
const WINDOW_CONTEXT: usize = 8;

impl Window {
    fn new(tokenizer: &TextTokenizer, context: &[u32], skip_special: bool) -> Window {
        let ids = context[context.len().saturating_sub(WINDOW_CONTEXT)..].to_vec();
        let prefix = tokenizer.inner.decode(&ids, skip_special).unwrap_or_default();
        Window { prefix_index: ids.len(), ids, prefix }
    }

    fn push(
        &mut self,
        tokenizer: &TextTokenizer,
        id: u32,
        skip_special: bool,
        out: &mut String,
    ) -> Result<()> {
        let step = step_decode_stream(
            &*tokenizer.inner,
            vec![id],
            skip_special,
            &mut self.ids,
            &mut self.prefix,
            &mut self.prefix_index,
        );
        out.push_str(&step.map_err(|e| anyhow!("token {id} cannot be decoded: {e}"))?.unwrap_or_default());
        Ok(())
    }

    fn finish(&mut self, tokenizer: &TextTokenizer, skip_special: bool, out: &mut String) {
        let text = tokenizer.inner.decode(&self.ids, skip_special).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(&self.prefix) {
            let complete = rest.trim_end_matches(char::REPLACEMENT_CHARACTER);
            out.push_str(complete);
            if complete.len() < rest.len() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.ids.clear();
        self.prefix.clear();
    }
}

pub struct DetokenizerStream {
    tokenizer: Arc<TextTokenizer>,
    skip_special: bool,
    /// Spaces at the beginning that belong to the tokenizer's spelling and not to the text.
    leading_spaces: usize,
    utf8: Utf8Assembler,
    window: Option<Window>,
}

impl DetokenizerStream {
    /// A space at the beginning belongs to the text when some text of `context` is in front of it.
    pub fn new(tokenizer: Arc<TextTokenizer>, context: &[u32], skip_special: bool) -> DetokenizerStream {
        let hidden = |id: u32| skip_special && tokenizer.table.is_special(id);
        let at_start = !context.iter().any(|&id| !hidden(id) && !tokenizer.table.bytes(id).is_empty());
        let (leading_spaces, window) = match tokenizer.table.kind {
            DecodingKind::Bytes { leading_spaces } => (if at_start { leading_spaces } else { 0 }, None),
            DecodingKind::Opaque => (0, Some(Window::new(&tokenizer, context, skip_special))),
        };
        DetokenizerStream { tokenizer, skip_special, leading_spaces, utf8: Utf8Assembler::default(), window }
    }

    /// An id without an entry (a padded output head has some) is no text.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let mut out = String::new();
        if let Some(window) = &mut self.window {
            window.push(&self.tokenizer, id, self.skip_special, &mut out)?;
            return Ok(out);
        }
        if self.skip_special && self.tokenizer.table.is_special(id) {
            return Ok(out);
        }
        let mut bytes = self.tokenizer.table.bytes(id);
        while self.leading_spaces > 0 && !bytes.is_empty() {
            match bytes.strip_prefix(b" ") {
                Some(rest) => {
                    bytes = rest;
                    self.leading_spaces -= 1;
                }
                None => self.leading_spaces = 0,
            }
        }
        self.utf8.push(bytes, &mut out);
        Ok(out)
    }

    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        match &mut self.window {
            Some(window) => window.finish(&self.tokenizer, self.skip_special, &mut out),
            None => self.utf8.finish(&mut out),
        }
        out
    }
}
