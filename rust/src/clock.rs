//! `strftime_now` of chat templates.
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::OnceLock;

use minijinja::{Error, ErrorKind};

static IS_FIXED: AtomicBool = AtomicBool::new(false);
static FIXED_SECONDS: AtomicI64 = AtomicI64::new(0);

/// The longest date that a template can ask for; a longer one is an error.
const MAX_BYTES: usize = 1024;

#[no_mangle]
pub extern "C" fn pt_set_clock_for_tests(unix_seconds: i64) {
    FIXED_SECONDS.store(unix_seconds, Ordering::Relaxed);
    IS_FIXED.store(true, Ordering::Release);
}

fn failed(format: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot format {format:?}"))
}

/// Local time, or the fixed time of tests as UTC.
fn broken_down_now() -> Option<libc::tm> {
    // SAFETY: tm is plain integers and a pointer, for which zero is valid; both calls fill it or return null.
    unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        let filled = if IS_FIXED.load(Ordering::Acquire) {
            let seconds: libc::time_t = FIXED_SECONDS.load(Ordering::Relaxed);
            libc::gmtime_r(&seconds, &mut tm)
        } else {
            let seconds = libc::time(std::ptr::null_mut());
            libc::localtime_r(&seconds, &mut tm)
        };
        (!filled.is_null()).then_some(tm)
    }
}

/// The "C" locale: month names are English whatever the process has set. 0 when the system has none.
fn c_locale() -> usize {
    static LOCALE: OnceLock<usize> = OnceLock::new();
    // SAFETY: the name is a C string; the locale is kept for the life of the process.
    *LOCALE.get_or_init(|| unsafe {
        libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), std::ptr::null_mut()) as usize
    })
}

pub fn strftime_now(format: &str) -> Result<String, Error> {
    if format.is_empty() {
        return Ok(String::new());
    }
    let c_format = CString::new(format).map_err(|_| failed(format))?;
    let tm = broken_down_now().ok_or_else(|| failed(format))?;
    let mut buffer = vec![0u8; MAX_BYTES];
    // SAFETY: the buffer has the length given; the thread's locale is put back. uselocale(0) changes nothing.
    let size = unsafe {
        let before = libc::uselocale(c_locale() as libc::locale_t);
        let size = libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), c_format.as_ptr(), &tm);
        libc::uselocale(before);
        size
    };
    buffer.truncate(size);
    String::from_utf8(buffer).map_err(|_| failed(format))
}
