//! C functions of chat templates.
use std::ffi::{c_char, c_int};

use crate::abi::{guard, guard_value, str_in, PtIds, PtText};
use crate::chat::render_chat;
use crate::context::parse_context;
use crate::template::ChatTemplate;
use crate::tokenizer_abi::{shared, PtTokenizer};

pub struct PtTemplate(ChatTemplate);

/// Text and ids that the caller owns.
#[repr(C)]
pub struct PtPrompt {
    text: PtText,
    ids: PtIds,
}

/// # Safety
/// `template` came from pt_template_compile and lives as long as the result is used.
unsafe fn shared_template<'a>(template: *const PtTemplate) -> &'a ChatTemplate {
    &(*template).0
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_template_compile(
    source: *const c_char,
    source_size: usize,
    out: *mut *mut PtTemplate,
) -> c_int {
    guard(|| {
        let template = ChatTemplate::compile(str_in(source, source_size)?)?;
        *out = Box::into_raw(Box::new(PtTemplate(template)));
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_template_free(template: *mut PtTemplate) {
    if !template.is_null() {
        guard_value((), || drop(Box::from_raw(template)));
    }
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_template_wants_content_parts(template: *const PtTemplate) -> c_int {
    guard_value(0, || c_int::from(shared_template(template).wants_content_parts))
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_template_render(
    template: *const PtTemplate,
    context: *const c_char,
    context_size: usize,
    out: *mut PtText,
) -> c_int {
    guard(|| {
        let context = parse_context(str_in(context, context_size)?)?;
        *out = shared_template(template).render(&context)?.into();
        Ok(())
    })
}

/// # Safety
/// See pagoda_text.h; every pointer is what it says there.
#[no_mangle]
pub unsafe extern "C" fn pt_render_chat(
    template: *const PtTemplate,
    tokenizer: *const PtTokenizer,
    context: *const c_char,
    context_size: usize,
    out: *mut PtPrompt,
) -> c_int {
    guard(|| {
        let prompt =
            render_chat(shared_template(template), shared(tokenizer), str_in(context, context_size)?)?;
        *out = PtPrompt { text: prompt.text.into(), ids: prompt.ids.into() };
        Ok(())
    })
}
