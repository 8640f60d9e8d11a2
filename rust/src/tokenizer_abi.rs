//! C functions of tokenizers and streams.
use std::ffi::{c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

use anyhow::anyhow;

use crate::abi::{guard, guard_value, slice_in, str_in, PtIds, PtText};
use crate::stream::DetokenizerStream;
use crate::tokenizer::TextTokenizer;

const ADD_SPECIAL: u32 = 1;
const PARSE_SPECIAL: u32 = 2;

pub struct PtTokenizer(Arc<TextTokenizer>);
pub struct PtStream(DetokenizerStream);

/// # Safety
/// `tokenizer` came from pt_tokenizer_load and lives as long as the result is used.
pub unsafe fn shared<'a>(tokenizer: *const PtTokenizer) -> &'a Arc<TextTokenizer> {
    &(*tokenizer).0
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_load(
    json: *const c_char,
    json_size: usize,
    out: *mut *mut PtTokenizer,
) -> c_int {
    guard(|| {
        let tokenizer = TextTokenizer::load(str_in(json, json_size)?)?;
        *out = Box::into_raw(Box::new(PtTokenizer(Arc::new(tokenizer))));
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_free(tokenizer: *mut PtTokenizer) {
    if !tokenizer.is_null() {
        guard_value((), || drop(Box::from_raw(tokenizer)));
    }
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_vocab_size(tokenizer: *const PtTokenizer) -> usize {
    guard_value(0, || shared(tokenizer).table.size())
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_encode(
    tokenizer: *const PtTokenizer,
    text: *const c_char,
    text_size: usize,
    flags: u32,
    out: *mut PtIds,
) -> c_int {
    guard(|| {
        let text = str_in(text, text_size)?;
        let (add_special, parse_special) = (flags & ADD_SPECIAL != 0, flags & PARSE_SPECIAL != 0);
        *out = shared(tokenizer).encode(text, add_special, parse_special)?.into();
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_decode(
    tokenizer: *const PtTokenizer,
    ids: *const u32,
    num_ids: usize,
    skip_special: c_int,
    out: *mut PtText,
) -> c_int {
    guard(|| {
        *out = shared(tokenizer).decode(slice_in(ids, num_ids), skip_special != 0)?.into();
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_token_bytes(
    tokenizer: *const PtTokenizer,
    id: u32,
    size: *mut usize,
) -> *const c_char {
    *size = 0;
    guard_value(null(), || {
        let bytes = shared(tokenizer).table.bytes(id);
        *size = bytes.len();
        bytes.as_ptr().cast()
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_token_string(
    tokenizer: *const PtTokenizer,
    id: u32,
    out: *mut PtText,
) -> c_int {
    guard(|| {
        *out =
            shared(tokenizer).token_string(id).ok_or_else(|| anyhow!("token id {id} has no entry"))?.into();
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_token_to_id(
    tokenizer: *const PtTokenizer,
    token: *const c_char,
    token_size: usize,
) -> i64 {
    guard_value(-1, || {
        let id = str_in(token, token_size).ok().and_then(|token| shared(tokenizer).inner.token_to_id(token));
        id.map_or(-1, i64::from)
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_tokenizer_is_special(tokenizer: *const PtTokenizer, id: u32) -> c_int {
    guard_value(0, || c_int::from(shared(tokenizer).table.is_special(id)))
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_stream_new(
    tokenizer: *const PtTokenizer,
    context: *const u32,
    num_context: usize,
    skip_special: c_int,
) -> *mut PtStream {
    guard_value(std::ptr::null_mut(), || {
        let context = slice_in(context, num_context);
        let stream = DetokenizerStream::new(shared(tokenizer).clone(), context, skip_special != 0);
        Box::into_raw(Box::new(PtStream(stream)))
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_stream_push(stream: *mut PtStream, id: u32, out: *mut PtText) -> c_int {
    guard(|| {
        *out = (*stream).0.push(id)?.into();
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_stream_finish(stream: *mut PtStream, out: *mut PtText) -> c_int {
    guard(|| {
        *out = (*stream).0.finish().into();
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_stream_free(stream: *mut PtStream) {
    if !stream.is_null() {
        guard_value((), || drop(Box::from_raw(stream)));
    }
}
