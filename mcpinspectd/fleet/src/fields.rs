//! The fields of one journal entry, borrowed from the text that contains them.
//!
//! A collection has hundreds of millions of entries, and most of an entry is of no use here. So no
//! tree of values is built: names are recognised as they are read, wanted values stay where
//! they are, and the rest is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

macro_rules! fields {
    ($($field:ident = $name:literal,)*) => {
        /// A field to read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $(#[doc = $name] $field,)*
        }

        impl Field {
            /// Names of all fields, in order.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The field of this name, if it is read.
            pub fn of(name: &[u8]) -> Option<Self> {
                $(if name == $name.as_bytes() { return Some(Self::$field); })*
                None
            }
        }
    };
}

fields! {
    Time = "__REALTIME_TIMESTAMP",
    Cursor = "__CURSOR",
    Host = "_HOSTNAME",
    Machine = "_MACHINE_ID",
    Uid = "_UID",
    Pid = "_PID",
    MessageId = "MESSAGE_ID",
    Unit = "UNIT",
    ObjectUnit = "OBJECT_SYSTEMD_UNIT",
    Event = "MCPINSPECT_EVENT",
    Server = "MCPINSPECT_SERVER",
    Tool = "MCPINSPECT_TOOL",
    Hash = "MCPINSPECT_HASH",
    PreviousHash = "MCPINSPECT_PREVIOUS_HASH",
    Severity = "MCPINSPECT_SEVERITY",
    Category = "MCPINSPECT_CATEGORY",
    Pattern = "MCPINSPECT_PATTERN",
    Fingerprint = "MCPINSPECT_FINGERPRINT",
    Item = "MCPINSPECT_ITEM",
    Decision = "MCPINSPECT_DECISION",
    DecidedBy = "MCPINSPECT_DECIDED_BY",
    DecidedByUid = "MCPINSPECT_DECIDED_BY_UID",
    Reason = "MCPINSPECT_REASON",
    BytesLost = "MCPINSPECT_BYTES_LOST",
    Dropped = "MCPINSPECT_DROPPED",
    Json = "MCPINSPECT_JSON",
}

const COUNT: usize = Field::NAMES.len();

/// The values of an entry's fields; if one field has several values, the first.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    values: [Option<Cow<'a, str>>; COUNT],
    /// [`Field::Json`] as JSON text: a string in quotes, which is needed for few entries.
    quoted: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// Adds a field, unless there is one of that name.
    pub fn add(&mut self, field: Field, value: Cow<'a, str>) {
        if let Some(slot) = self.values.get_mut(field as usize) {
            slot.get_or_insert(value);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.quoted.is_none() && self.values.iter().all(Option::is_none)
    }

    /// The value of a field.
    pub fn get(&self, field: Field) -> Option<&str> {
        self.values.get(field as usize)?.as_deref()
    }

    /// The event's own JSON.
    pub fn event_json(&self) -> Option<Cow<'_, str>> {
        match self.quoted {
            Some(quoted) => serde_json::from_str(quoted).ok().map(Cow::Owned),
            None => self.get(Field::Json).map(Cow::Borrowed),
        }
    }

    /// The fields of a line in the format of `journalctl -o json`.
    pub fn of_json(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The fields of an entry in the format of `journalctl -o export`, without the empty line after it.
    pub fn of_export(mut entry: &'a [u8]) -> Option<Self> {
        let mut fields = Self::default();
        while !entry.is_empty() {
            let end = memchr::memchr(b'\n', entry).unwrap_or(entry.len());
            let line = entry.get(..end)?;
            let rest = entry.get(end + 1..).unwrap_or_default();
            let (name, value, rest) = if let Some(at) = memchr::memchr(b'=', line) {
                (line.get(..at)?, line.get(at + 1..)?, rest)
            } else {
                let (length, rest) = rest.split_first_chunk::<8>()?;
                let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                let (value, rest) = rest.split_at_checked(length)?;
                (line, value, rest.strip_prefix(b"\n")?)
            };
            if let Some(field) = Field::of(name) {
                fields.add(field, String::from_utf8_lossy(value));
            }
            entry = rest;
        }
        (!fields.is_empty()).then_some(fields)
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entry)
    }
}

struct Entry;

impl<'de> Visitor<'de> for Entry {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a journal entry")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(Name(field)) = map.next_key()? {
            match field {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(Field::Json) => {
                    let text = map.next_value::<&'de RawValue>()?.get();
                    fields.quoted.get_or_insert(text);
                }
                Some(field) => {
                    if let Value::Text(text) = map.next_value()? {
                        fields.add(field, text);
                    }
                }
            }
        }
        Ok(fields)
    }
}

struct Name(Option<Field>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(Name(Field::of(name.as_bytes())))
            }
        }
        deserializer.deserialize_str(Names)
    }
}

/// journalctl writes binary values as an array of bytes, several values as an array of values, and
/// `null` for values that are too large.
enum Value<'a> {
    Text(Cow<'a, str>),
    Byte(u8),
    Other,
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(u8::try_from(number).map_or(Value::Other, Value::Byte))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let mut first = seq.next_element()?.unwrap_or(Value::Other);
        if let Value::Byte(byte) = first {
            let mut bytes = vec![byte];
            while let Some(Value::Byte(byte)) = seq.next_element()? {
                bytes.push(byte);
            }
            first = Value::Text(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()));
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }
}
