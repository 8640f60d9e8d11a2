//! The `tojson` filter as transformers defines it: Python's json.dumps without HTML escapes.
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Deeper than any JSON that is let in (serde_json stops at 128), and harmless for the stack.
const MAX_DEPTH: usize = 200;

fn fail(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Python's repr of a float: shortest digits that read back, exponent form from 1e16 and below 1e-4.
pub fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// json.dumps's arguments.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

struct Dumper<'a> {
    out: String,
    style: &'a Style,
}

impl Dumper<'_> {
    fn escape(&mut self, c: char) {
        let mut units = [0u16; 2];
        for unit in c.encode_utf16(&mut units) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.style.ensure_ascii && (c as u32) > 0x7f) => self.escape(c),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None => self.out.push_str("\"null\""),
            ValueKind::Bool => self.out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
            ValueKind::Number => self.string(&key.to_string()),
            kind => return Err(fail(format!("keys of type {kind} are not JSON serializable"))),
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut is_empty = true;
        for item in value.try_iter()? {
            if !is_empty {
                self.out.push_str(&self.style.item_separator);
            }
            is_empty = false;
            self.new_line(depth + 1);
            self.value(&item, depth + 1)?;
        }
        if !is_empty {
            self.new_line(depth);
        }
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.style.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (index, key) in keys.iter().enumerate() {
            if index > 0 {
                self.out.push_str(&self.style.item_separator);
            }
            self.new_line(depth + 1);
            self.key(key)?;
            self.out.push_str(&self.style.key_separator);
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        if !keys.is_empty() {
            self.new_line(depth);
        }
        self.out.push('}');
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(fail(format!("tojson: nested more than {MAX_DEPTH} deep")));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => self.out.push_str(&python_float(f64::try_from(value.clone())?)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            ValueKind::Undefined => return Err(fail("Object of type Undefined is not JSON serializable")),
            kind => return Err(fail(format!("Object of type {kind} is not JSON serializable"))),
        }
        Ok(())
    }
}

/// tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False), by position or by name.
pub fn tojson(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let given = match positional.get(index) {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<Value>>(name)?,
        };
        Ok(given.filter(|v| !v.is_none() && !v.is_undefined()))
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = match argument(1, "indent")? {
        None => None,
        Some(v) => Some(match v.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(v)?.clamp(0, 64)).unwrap_or(0)),
        }),
    };
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    named.assert_all_used()?;
    let (item_separator, key_separator) = match &separators {
        Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
        None => ((if indent.is_some() { "," } else { ", " }).to_owned(), ": ".to_owned()),
    };
    let style = Style { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    let mut dumper = Dumper { out: String::new(), style: &style };
    dumper.value(value, 0)?;
    Ok(Value::from(dumper.out))
}
