//! The border to C: errors, panics and memory that changes hands.
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use anyhow::{Context, Result};

pub const PT_OK: c_int = 0;
pub const PT_ERROR: c_int = 1;
pub const PT_PANIC: c_int = 2;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

fn set_last_error(message: &str) {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with(|slot| *slot.borrow_mut() = text);
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("panic in the text library: {}", text.unwrap_or("no message"))
}

/// Panics are reported through the return value; the default hook would print them to stderr as well.
/// Panics that start elsewhere in the process do not exist: this is its only Rust code.
fn quiet_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// Runs the body of a C function: neither an error nor a panic gets past it.
pub fn guard(body: impl FnOnce() -> Result<()>) -> c_int {
    quiet_panics();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => PT_OK,
        Ok(Err(error)) => {
            set_last_error(&format!("{error:#}"));
            PT_ERROR
        }
        Err(payload) => {
            set_last_error(&panic_message(payload.as_ref()));
            PT_PANIC
        }
    }
}

/// The same for a body that cannot fail other than by a bug: `fallback` stands in for its value then.
pub fn guard_value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    quiet_panics();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Text that the caller owns.
#[repr(C)]
pub struct PtText {
    data: *mut c_char,
    size: usize,
    capacity: usize,
}

impl From<String> for PtText {
    fn from(text: String) -> Self {
        let mut bytes = ManuallyDrop::new(text.into_bytes());
        PtText { data: bytes.as_mut_ptr().cast(), size: bytes.len(), capacity: bytes.capacity() }
    }
}

/// Token ids that the caller owns.
#[repr(C)]
pub struct PtIds {
    data: *mut u32,
    size: usize,
    capacity: usize,
}

impl From<Vec<u32>> for PtIds {
    fn from(ids: Vec<u32>) -> Self {
        let mut ids = ManuallyDrop::new(ids);
        PtIds { data: ids.as_mut_ptr(), size: ids.len(), capacity: ids.capacity() }
    }
}

/// # Safety
/// `data` points to `size` readable elements that live as long as the result is used, or `size` is 0.
pub unsafe fn slice_in<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, size)
}

/// # Safety
/// As [`slice_in`].
pub unsafe fn str_in<'a>(data: *const c_char, size: usize) -> Result<&'a str> {
    std::str::from_utf8(slice_in(data.cast::<u8>(), size)).context("the text is not valid UTF-8")
}

#[no_mangle]
pub extern "C" fn pt_last_error() -> *const c_char {
    LAST_ERROR.with(|slot| slot.borrow().as_ptr())
}

/// # Safety
/// `text` came from this library and is freed once.
#[no_mangle]
pub unsafe extern "C" fn pt_text_free(text: PtText) {
    if text.capacity != 0 {
        drop(Vec::from_raw_parts(text.data.cast::<u8>(), text.size, text.capacity));
    }
}

/// # Safety
/// `ids` came from this library and is freed once.
#[no_mangle]
pub unsafe extern "C" fn pt_ids_free(ids: PtIds) {
    if ids.capacity != 0 {
        drop(Vec::from_raw_parts(ids.data, ids.size, ids.capacity));
    }
}
