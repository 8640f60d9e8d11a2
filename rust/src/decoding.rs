//! What each token stands for inside a text, worked out once from the tokenizer's decoder.
use anyhow::Result;
use serde_json::Value;
use tokenizers::tokenizer::{Model, Tokenizer};

/// How ids become text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DecodingKind {
    /// The text is the concatenation of the tokens' bytes, less up to this many spaces at its beginning.
    Bytes { leading_spaces: usize },
    /// Anything else (WordPiece, CTC, ...): only the crate's own decoder knows.
    Opaque,
}

/// The steps of a SentencePiece-like decoder, each of which acts on one token at a time.
#[derive(Default)]
struct PieceSteps {
    byte_level: bool,
    byte_fallback: bool,
    replacements: Vec<(String, String)>,
    leading_spaces: usize,
}

impl PieceSteps {
    /// None when the decoder has a step that looks beyond single tokens.
    fn from_decoder(decoder: &Value) -> Option<PieceSteps> {
        let mut steps = PieceSteps::default();
        match decoder["type"].as_str()? {
            "Sequence" => {
                for step in decoder["decoders"].as_array()? {
                    steps.add(step)?;
                }
            }
            _ => steps.add(decoder)?,
        }
        Some(steps)
    }

    fn add(&mut self, step: &Value) -> Option<()> {
        match step["type"].as_str()? {
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Fuse" => {}
            "Replace" => {
                let pattern = step["pattern"]["String"].as_str()?;
                self.replacements.push((pattern.to_owned(), step["content"].as_str()?.to_owned()));
            }
            "Strip" if step["content"] == " " && step["stop"] == 0 => {
                self.leading_spaces = usize::try_from(step["start"].as_u64()?).ok()?;
            }
            "Metaspace" => {
                self.replacements.push((step["replacement"].as_str()?.to_owned(), " ".to_owned()));
                self.leading_spaces = usize::from(step["prepend_scheme"] != "never");
            }
            _ => return None,
        }
        Some(())
    }

    fn bytes_of(&self, token: &str, is_added: bool) -> Vec<u8> {
        if self.byte_level && !is_added {
            return byte_level_bytes(token).unwrap_or_else(|| token.as_bytes().to_vec());
        }
        if self.byte_fallback && !is_added {
            if let Some(byte) = fallback_byte(token) {
                return vec![byte];
            }
        }
        let mut text = token.to_owned();
        for (pattern, content) in &self.replacements {
            text = text.replace(pattern, content);
        }
        text.into_bytes()
    }
}

/// "<0x0A>" -> 10.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Inverse of GPT-2's alphabet, in which every byte is a printable character: printable Latin-1 stands for
/// itself, the other bytes are numbered upwards from U+0100. None when a character is outside of it.
fn byte_level_bytes(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of_char).collect()
}

fn stands_for_itself(byte: u32) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

fn byte_of_char(c: char) -> Option<u8> {
    let code = c as u32;
    if code < 0x100 {
        return if stands_for_itself(code) { u8::try_from(code).ok() } else { None };
    }
    let byte = (0..0x100u32).filter(|&b| !stands_for_itself(b)).nth((code - 0x100) as usize)?;
    u8::try_from(byte).ok()
}

/// Bytes and flags of every id, in one block of memory.
pub struct TokenTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    flags: Vec<u8>,
    pub kind: DecodingKind,
}

const FLAG_EXISTS: u8 = 1;
const FLAG_SPECIAL: u8 = 2;

impl TokenTable {
    pub fn new(tokenizer: &Tokenizer) -> Result<TokenTable> {
        let decoder = serde_json::to_value(tokenizer.get_decoder())?;
        let steps = PieceSteps::from_decoder(&decoder);
        let kind = match &steps {
            Some(steps) => DecodingKind::Bytes { leading_spaces: steps.leading_spaces },
            None => DecodingKind::Opaque,
        };
        let steps = steps.unwrap_or_default();
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let model_size = tokenizer.get_model().get_vocab_size();
        let highest_model_id = tokenizer.get_model().get_vocab().into_values().max();
        let highest = added.keys().copied().max().max(highest_model_id).map_or(0, |id| id as usize + 1);
        // Ids are dense in practice; a file that names id 4294967295 must not make this table 4 GB large.
        let limit = 2 * (model_size + added.len()) + (1 << 16);
        anyhow::ensure!(highest <= limit, "token id {} is beyond the limit of {limit}", highest - 1);

        let mut table = TokenTable { bytes: Vec::new(), ends: Vec::new(), flags: Vec::new(), kind };
        for id in 0..highest as u32 {
            let mut flags = 0;
            if let Some(token) = added.get(&id) {
                flags = FLAG_EXISTS | if token.special { FLAG_SPECIAL } else { 0 };
                table.bytes.extend(steps.bytes_of(&token.content, true));
            } else if let Some(token) = tokenizer.get_model().id_to_token(id) {
                flags = FLAG_EXISTS;
                table.bytes.extend(steps.bytes_of(&token, false));
            }
            table.ends.push(table.bytes.len());
            table.flags.push(flags);
        }
        Ok(table)
    }

    /// One more than the highest id.
    pub fn size(&self) -> usize {
        self.ends.len()
    }

    pub fn exists(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|f| f & FLAG_EXISTS != 0)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|f| f & FLAG_SPECIAL != 0)
    }

    /// Empty for an id without an entry.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        match self.ends.get(id) {
            Some(&end) => &self.bytes[if id == 0 { 0 } else { self.ends[id - 1] }..end],
            None => &[],
        }
    }
}
