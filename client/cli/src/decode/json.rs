//! A message's description as one line of JSON, fields in the order of the wire.

use wire::describe::{FieldValue, Visitor};

/// JSON being written: an object to begin with.
pub struct Json {
    text: String,
    /// The closing bracket of each open record or list.
    open: Vec<char>,
    /// True if the next value needs a comma before it.
    comma: bool,
}

impl Json {
    /// An empty object.
    pub fn new() -> Json {
        Json { text: "{".into(), open: vec!['}'], comma: false }
    }

    /// The line.
    pub fn finish(mut self) -> String {
        while let Some(bracket) = self.open.pop() {
            self.text.push(bracket);
        }
        self.text
    }

    /// A time in seconds with nine decimals: exact, where a float is not.
    pub fn time(&mut self, name: &'static str, nanos: u64) {
        self.name(Some(name));
        self.text += &format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    }

    fn name(&mut self, name: Option<&str>) {
        if self.comma {
            self.text.push(',');
        }
        self.comma = true;
        if let Some(name) = name {
            self.string(name);
            self.text.push(':');
        }
    }

    fn string(&mut self, text: &str) {
        self.text += &serde_json::Value::from(text).to_string();
    }

    fn value(&mut self, value: FieldValue<'_>) {
        match value {
            FieldValue::Number(n) => self.text += &n.to_string(),
            // JSON has no infinity and no NaN: they are written as text.
            FieldValue::Float(f) if f.is_finite() => self.text += &serde_json::Value::from(f64::from(f)).to_string(),
            FieldValue::Float(f) => self.string(&f.to_string()),
            FieldValue::Address(a) => self.string(&a.to_string()),
            FieldValue::Bytes(b) => {
                let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
                self.string(&hex);
            }
            FieldValue::Text(t) => self.string(t),
            FieldValue::Flag(b) => self.text += if b { "true" } else { "false" },
        }
    }

    fn open(&mut self, name: Option<&'static str>, brackets: (char, char)) {
        self.name(name);
        self.text.push(brackets.0);
        self.open.push(brackets.1);
        self.comma = false;
    }
}

impl Visitor for Json {
    fn field(&mut self, name: &'static str, value: FieldValue<'_>) {
        self.name(Some(name));
        self.value(value);
    }

    fn item(&mut self, value: FieldValue<'_>) {
        self.name(None);
        self.value(value);
    }

    fn list(&mut self, name: &'static str) {
        self.open(Some(name), ('[', ']'));
    }

    fn record(&mut self, name: Option<&'static str>) {
        self.open(name, ('{', '}'));
    }

    fn end(&mut self) {
        self.text.extend(self.open.pop());
        self.comma = true;
    }
}
