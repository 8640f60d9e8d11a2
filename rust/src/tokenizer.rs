//! A tokenizer.json with exact ids, and the parts of it that chat prompts and decoding need.
use std::sync::Arc;

use anyhow::{anyhow, bail, Result};
use tokenizers::tokenizer::{
    AddedVocabulary, Model, NormalizedString, Normalizer, NormalizerWrapper, OffsetType, PreTokenizedString,
    PreTokenizer, Tokenizer,
};

use crate::decoding::{DecodingKind, TokenTable};
use crate::marks::ControlTexts;
use crate::stream::DetokenizerStream;

/// The pre-tokenizers' look-ahead for the last space of a run keeps one state per character of the run, at
/// most 1,000,000 of them (fancy-regex), and gives up without an error beyond. Longer runs are refused; the
/// longest tokens for spaces have 128 characters, so no context of today has room for what is refused.
const MAX_WHITESPACE_RUN: usize = 900_000;

pub struct TextTokenizer {
    pub inner: Arc<Tokenizer>,
    pub table: TokenTable,
    pub control_texts: ControlTexts,
    /// The ids that the post-processor puts in front of a text: BOS or nothing.
    pub prefix_ids: Vec<u32>,
    /// The same added tokens, with those of special kind left alone.
    plain_added: AddedVocabulary,
    /// Whether a special token is looked for in normalised text.
    has_normalized_special: bool,
}

/// Takes the marks out of the text and then does what the tokenizer's own normalizer does. When it runs,
/// control tokens have been split off already.
struct UnmarkingNormalizer<'a> {
    mark: Option<char>,
    inner: Option<&'a NormalizerWrapper>,
}

impl Normalizer for UnmarkingNormalizer<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        if let Some(mark) = self.mark {
            text.filter(|c| c != mark);
        }
        self.inner.map_or(Ok(()), |inner| inner.normalize(text))
    }
}

fn check_whitespace_runs(text: &str) -> Result<()> {
    if text.len() <= MAX_WHITESPACE_RUN {
        return Ok(());
    }
    let mut run = 0;
    for c in text.chars() {
        run = if c.is_whitespace() { run + 1 } else { 0 };
        if run > MAX_WHITESPACE_RUN {
            bail!("the text has more than {MAX_WHITESPACE_RUN} whitespace characters in a row");
        }
    }
    Ok(())
}

fn describe(error: tokenizers::Error) -> anyhow::Error {
    anyhow!("{error}")
}

/// What `with` has in front of `without`; nothing when it is no continuation of it.
fn ids_in_front(with: &[u32], without: &[u32]) -> Vec<u32> {
    if without.is_empty() {
        return Vec::new();
    }
    let start = with.windows(without.len()).position(|window| window == without);
    start.map_or(Vec::new(), |start| with[..start].to_vec())
}

impl TextTokenizer {
    pub fn load(json: &str) -> Result<TextTokenizer> {
        let mut inner = Tokenizer::from_bytes(json).map_err(describe)?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(describe)?;
        // A file may ask for special tokens to be left alone; here the caller decides.
        inner.set_encode_special_tokens(false);
        let mut plain_added = inner.get_added_vocabulary().clone();
        plain_added.set_encode_special_tokens(true);
        let added = inner.get_added_tokens_decoder();
        let special = added.values().filter(|token| token.special);
        let control_texts = ControlTexts::new(special.clone().map(|token| token.content.as_str()))?;
        let has_normalized_special = special.clone().any(|token| token.normalized);
        let table = TokenTable::new(&inner)?;
        let mut tokenizer = TextTokenizer {
            inner: Arc::new(inner),
            table,
            control_texts,
            prefix_ids: Vec::new(),
            plain_added,
            has_normalized_special,
        };
        let with = tokenizer.encode("a", true, true)?;
        tokenizer.prefix_ids = ids_in_front(&with, &tokenizer.encode("a", false, true)?);
        Ok(tokenizer)
    }

    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        let added = if parse_special { self.inner.get_added_vocabulary() } else { &self.plain_added };
        self.encode_with(added, text, None, add_special)
    }

    /// Without BOS; a control token's text with a `mark` in it is plain text, and the marks are not part of
    /// the text.
    pub fn encode_marked(&self, text: &str, mark: char) -> Result<Vec<u32>> {
        self.encode_with(self.inner.get_added_vocabulary(), text, Some(mark), false)
    }

    /// The crate's own pipeline (`TokenizerImpl::encode_fast`), with a choice of added tokens and of marks.
    fn encode_with(
        &self,
        added: &AddedVocabulary,
        text: &str,
        mark: Option<char>,
        add_special: bool,
    ) -> Result<Vec<u32>> {
        check_whitespace_runs(text)?;
        // Special tokens that are matched in normalised text must not see the text without its marks, so
        // that these stay until the matching is over. For all others the marks go first: a normalizer must
        // not see them.
        let early_mark = mark.filter(|_| !self.has_normalized_special);
        let normalizer = UnmarkingNormalizer { mark: early_mark, inner: self.inner.get_normalizer() };
        let mut pieces: PreTokenizedString = added.extract_and_normalize(Some(&normalizer), text);
        if let Some(mark) = mark.filter(|_| early_mark.is_none()) {
            let unmark = |piece: &mut NormalizedString| {
                piece.filter(|c| c != mark);
                Ok(())
            };
            pieces.normalize(unmark).map_err(describe)?;
        }
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(describe)?;
        }
        self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None).map_err(describe)?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None).map_err(describe)?;
        let encoding = self.inner.post_process(encoding, None, add_special).map_err(describe)?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn decode(self: &Arc<Self>, ids: &[u32], skip_special: bool) -> Result<String> {
        if let Some(&id) = ids.iter().find(|&&id| !self.table.exists(id)) {
            bail!("token id {id} is not in the vocabulary of {} entries", self.table.size());
        }
        if self.table.kind == DecodingKind::Opaque {
            return self.inner.decode(ids, skip_special).map_err(describe);
        }
        let mut stream = DetokenizerStream::new(self.clone(), &[], skip_special);
        let mut text = String::new();
        for &id in ids {
            text.push_str(&stream.push(id)?);
        }
        text.push_str(&stream.finish());
        Ok(text)
    }

    /// The vocabulary's own spelling.
    pub fn token_string(&self, id: u32) -> Option<String> {
        if let Some(token) = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id) {
            return Some(token.content.clone());
        }
        self.inner.get_model().id_to_token(id)
    }
}
