//! From a conversation to the ids of a prompt.
use anyhow::Result;

use crate::context::parse_context;
use crate::marks;
use crate::template::ChatTemplate;
use crate::tokenizer::TextTokenizer;

pub struct RenderedPrompt {
    pub text: String,
    pub ids: Vec<u32>,
}

/// Control tokens come from the template's own text alone. When some string of the context contains a
/// control token's text, the template sees that string with marks in it (see `marks`).
pub fn render_chat(template: &ChatTemplate, tokenizer: &TextTokenizer, json: &str) -> Result<RenderedPrompt> {
    let mut context = parse_context(json)?;
    let mark = tokenizer.control_texts.mark_context(&mut context, json)?;
    let rendered = template.render(&context)?;
    let (text, ids) = match mark {
        None => {
            let ids = tokenizer.encode(&rendered, false, true)?;
            (rendered, ids)
        }
        Some(mark) => {
            let marked = marks::unescape(rendered, mark);
            let ids = tokenizer.encode_marked(&marked, mark)?;
            (marks::without_marks(&marked, mark), ids)
        }
    };
    Ok(RenderedPrompt { text, ids: with_prefix(&tokenizer.prefix_ids, ids) })
}

/// A tokenizer that puts BOS in front of every text does so here too, unless the template has written it.
fn with_prefix(prefix: &[u32], ids: Vec<u32>) -> Vec<u32> {
    if ids.starts_with(prefix) {
        return ids;
    }
    let mut all = prefix.to_vec();
    all.extend(ids);
    all
}
