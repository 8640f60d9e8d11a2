//! C functions of grammars.
use std::ffi::{c_char, c_int};

use anyhow::bail;

use crate::abi::{guard, guard_value, slice_in, str_in};
use crate::grammar::{GrammarFactory, GrammarKind, GrammarMatcher};
use crate::tokenizer_abi::{shared, PtTokenizer};

pub struct PtGrammarFactory(GrammarFactory);
pub struct PtMatcher(GrammarMatcher);

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_grammar_factory_new(
    tokenizer: *const PtTokenizer,
    logits_width: usize,
    end_ids: *const u32,
    num_end_ids: usize,
    out: *mut *mut PtGrammarFactory,
) -> c_int {
    guard(|| {
        let end_ids = slice_in(end_ids, num_end_ids);
        let factory = GrammarFactory::new(shared(tokenizer), logits_width, end_ids)?;
        *out = Box::into_raw(Box::new(PtGrammarFactory(factory)));
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_grammar_factory_free(factory: *mut PtGrammarFactory) {
    if !factory.is_null() {
        guard_value((), || drop(Box::from_raw(factory)));
    }
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_matcher_new(
    factory: *const PtGrammarFactory,
    kind: c_int,
    text: *const c_char,
    text_size: usize,
    out: *mut *mut PtMatcher,
) -> c_int {
    guard(|| {
        let kind = match kind {
            0 => GrammarKind::JsonSchema,
            1 => GrammarKind::Regex,
            2 => GrammarKind::Choice,
            3 => GrammarKind::Lark,
            _ => bail!("{kind} is no kind of grammar"),
        };
        let matcher = (*factory).0.compile(kind, str_in(text, text_size)?)?;
        *out = Box::into_raw(Box::new(PtMatcher(matcher)));
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_matcher_fork(matcher: *const PtMatcher, out: *mut *mut PtMatcher) -> c_int {
    guard(|| {
        *out = Box::into_raw(Box::new(PtMatcher((*matcher).0.fork())));
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_matcher_mask(
    matcher: *mut PtMatcher,
    words: *mut u32,
    num_words: usize,
) -> c_int {
    guard(|| (*matcher).0.fill_mask(std::slice::from_raw_parts_mut(words, num_words)))
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_matcher_consume(matcher: *mut PtMatcher, id: u32, complete: *mut c_int) -> c_int {
    guard(|| {
        *complete = c_int::from((*matcher).0.consume(id)?);
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_matcher_free(matcher: *mut PtMatcher) {
    if !matcher.is_null() {
        guard_value((), || drop(Box::from_raw(matcher)));
    }
}
