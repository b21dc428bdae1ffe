//! Messages for tests: recorded ones, and random ones made from the shapes.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fmt::Write;

use bytes::Bytes;
use huld::base::entropy::Entropy;
use huld::wire::preflight::{self, Element, Field};
use kafka_protocol::messages::{ApiKey, RequestKind};

/// Every API and version that the codec decodes.
pub fn every_version() -> impl Iterator<Item = (ApiKey, i16)> {
    ApiKey::iter()
        .flat_map(|api| (0..40).filter(move |&version| decodes(api, version)).map(move |it| (api, it)))
}

/// Does the codec decode this version? What `ApiKey::valid_versions` says is not always true.
pub fn decodes(api: ApiKey, version: i16) -> bool {
    match RequestKind::decode(api, &mut Bytes::new(), version) {
        Ok(_) => true,
        Err(error) => !error.root_cause().to_string().contains("version not supported"),
    }
}

/// A request, and what came of it.
pub struct Exchange {
    pub api_key: i16,
    pub version: i16,
    /// Header and body.
    pub request: Vec<u8>,
    /// Header and body.
    pub response: Option<Vec<u8>>,
}

/// The lines of `fixtures/messages/messages.jsonl`.
pub fn recorded() -> Vec<Exchange> {
    let lines = include_str!("../../fixtures/messages/messages.jsonl").lines();
    lines.map(|line| exchange(line, "api")).collect()
}

/// The exchanges of all files in `fixtures/sessions`.
pub fn sessions() -> Vec<Exchange> {
    let files = [
        include_str!("../../fixtures/sessions/franz-go.jsonl"),
        include_str!("../../fixtures/sessions/java.jsonl"),
        include_str!("../../fixtures/sessions/kcat.jsonl"),
        include_str!("../../fixtures/sessions/librdkafka.jsonl"),
    ];
    let lines = files.into_iter().flat_map(|file| file.lines().skip(1));
    lines.map(|line| exchange(line, "key")).collect()
}

/// The files are ours, with all keys in one order and no escapes: a JSON reader isn't needed.
fn exchange(line: &str, api_key: &str) -> Exchange {
    let value = |key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\":")).expect(key);
        rest.split([',', '}']).next().expect(key)
    };
    let hex = |text: &str| -> Vec<u8> {
        let digits = text.trim_matches('"');
        (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..][..2], 16).unwrap()).collect()
    };
    Exchange {
        api_key: value(api_key).parse().unwrap(),
        version: value("version").parse().unwrap(),
        request: hex(value("request")),
        response: Some(value("response")).filter(|text| *text != "null").map(hex),
    }
}

/// How the length or count in front of something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Short,
    Int,
    Varint,
}

/// A message's body, and where its lengths and counts are: offset, bytes taken, kind.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub lengths: Vec<(usize, usize, Length)>,
}

/// What random messages look like.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Most elements of an array, bytes of a string, unknown tagged fields.
    pub most: u64,
    /// Null, empty or no tagged fields, in this many of a hundred cases.
    pub sparse_percent: u64,
}

/// A random body that is valid at this version.
pub fn random(api: ApiKey, version: i16, style: Style, entropy: &mut Entropy) -> Body {
    let mut writer = Writer { body: Body::default(), style, entropy };
    writer.fields(preflight::shape(api as i16, version).expect("a shape for what the codec decodes"));
    writer.body
}

/// A body whose outermost arrays have `count` elements, as small as they can be but for `tags` unknown tagged fields.
pub fn flood(api: ApiKey, version: i16, count: usize, tags: u32) -> Body {
    let mut body = Body::default();
    flood_fields(&mut body, preflight::shape(api as i16, version).expect("a shape"), count, tags);
    body
}

fn flood_fields(body: &mut Body, fields: &[Field], count: usize, tags: u32) {
    for field in fields {
        match *field {
            Field::Fixed(len) => body.bytes.extend(std::iter::repeat_n(0, len)),
            Field::String | Field::NullableString => body.length(0, Length::Short),
            Field::Bytes | Field::NullableBytes => body.length(0, Length::Int),
            Field::CompactString | Field::CompactBytes => body.length(1, Length::Varint),
            Field::CompactNullableString | Field::CompactNullableBytes => body.length(1, Length::Varint),
            Field::Array(element) | Field::NullableArray(element) => {
                body.length(count as u64, Length::Int);
                (0..count).for_each(|_| flood_fields(body, element.fields, 0, tags));
            }
            Field::CompactArray(element) | Field::CompactNullableArray(element) => {
                body.length(count as u64 + 1, Length::Varint);
                (0..count).for_each(|_| flood_fields(body, element.fields, 0, tags));
            }
            Field::NullableStruct(_) => body.bytes.push(0xff),
            Field::Tags(_) => {
                body.length(tags.into(), Length::Varint);
                for tag in 0..tags {
                    body.varint(1000 + u64::from(tag));
                    body.length(0, Length::Varint);
                }
            }
        }
    }
}

struct Writer<'a> {
    body: Body,
    style: Style,
    entropy: &'a mut Entropy,
}

impl Writer<'_> {
    fn fields(&mut self, fields: &[Field]) {
        fields.iter().for_each(|field| self.field(field));
    }

    fn field(&mut self, field: &Field) {
        match *field {
            // Ones and zeros make true booleans, and no NaN, which would differ from itself.
            Field::Fixed(len) => {
                for _ in 0..len {
                    let byte = self.entropy.below(2) as u8;
                    self.body.bytes.push(byte);
                }
            }
            Field::String => self.text(Length::Short),
            Field::NullableString => self.or_null(Length::Short, |writer| writer.text(Length::Short)),
            Field::CompactString => self.text(Length::Varint),
            Field::CompactNullableString => {
                self.or_null(Length::Varint, |writer| writer.text(Length::Varint))
            }
            Field::Bytes => self.text(Length::Int),
            Field::NullableBytes => self.or_null(Length::Int, |writer| writer.text(Length::Int)),
            Field::CompactBytes => self.text(Length::Varint),
            Field::CompactNullableBytes => self.or_null(Length::Varint, |writer| writer.text(Length::Varint)),
            Field::Array(element) => self.array(Length::Int, element),
            Field::NullableArray(element) => {
                self.or_null(Length::Int, |writer| writer.array(Length::Int, element))
            }
            Field::CompactArray(element) => self.array(Length::Varint, element),
            Field::CompactNullableArray(element) => {
                self.or_null(Length::Varint, |writer| writer.array(Length::Varint, element));
            }
            Field::NullableStruct(_) if self.sparse() => self.body.bytes.push(0xff),
            Field::NullableStruct(fields) => {
                self.body.bytes.push(1);
                self.fields(fields);
            }
            Field::Tags(known) => self.tags(known),
        }
    }

    fn sparse(&mut self) -> bool {
        self.entropy.below(100) < self.style.sparse_percent
    }

    fn or_null(&mut self, length: Length, present: impl FnOnce(&mut Self)) {
        match length {
            _ if !self.sparse() => present(self),
            Length::Varint => self.body.length(0, length),
            _ => self.body.length(u64::MAX, length),
        }
    }

    fn some(&mut self) -> u64 {
        if self.sparse() { 0 } else { self.entropy.below(self.style.most + 1) }
    }

    fn text(&mut self, length: Length) {
        let mut text = String::new();
        while (text.len() as u64) < self.some() {
            text.push(if self.entropy.below(8) == 0 { 'ß' } else { 'a' });
        }
        self.body.length(text.len() as u64 + u64::from(length == Length::Varint), length);
        self.body.bytes.extend(text.as_bytes());
    }

    fn array(&mut self, length: Length, element: &'static Element) {
        let count = self.some();
        self.body.length(count + u64::from(length == Length::Varint), length);
        (0..count).for_each(|_| self.fields(element.fields));
    }

    fn tags(&mut self, known: &'static [(u32, &'static [Field])]) {
        let known: Vec<_> = known.iter().filter(|_| !self.sparse()).collect();
        let unknown = self.some();
        self.body.length(known.len() as u64 + unknown, Length::Varint);
        for (tag, fields) in known {
            let mut inner = Writer { body: Body::default(), style: self.style, entropy: self.entropy };
            inner.fields(fields);
            let inner = inner.body;
            self.body.varint((*tag).into());
            self.body.length(inner.bytes.len() as u64, Length::Varint);
            let start = self.body.bytes.len();
            self.body.lengths.extend(inner.lengths.iter().map(|(at, len, kind)| (start + at, *len, *kind)));
            self.body.bytes.extend(inner.bytes);
        }
        for tag in 0..unknown {
            self.body.varint(100 + 50 * tag);
            self.text_of_tag();
        }
    }

    fn text_of_tag(&mut self) {
        let len = self.some();
        self.body.length(len, Length::Varint);
        self.body.bytes.extend((0..len).map(|at| at as u8));
    }
}

impl Body {
    fn length(&mut self, value: u64, kind: Length) {
        let at = self.bytes.len();
        match kind {
            Length::Short => self.bytes.extend((value as i16).to_be_bytes()),
            Length::Int => self.bytes.extend((value as i32).to_be_bytes()),
            Length::Varint => self.varint(value),
        }
        self.lengths.push((at, self.bytes.len() - at, kind));
    }

    fn varint(&mut self, value: u64) {
        self.bytes.extend(varint(value));
    }

    /// The body with each length in turn replaced by each lie of its kind.
    pub fn lies(&self) -> impl Iterator<Item = Vec<u8>> {
        self.lengths.iter().flat_map(move |&(at, len, kind)| {
            let remaining = self.bytes.len() - at - len;
            lies(kind, remaining).into_iter().map(move |lie| {
                let mut bytes = self.bytes.clone();
                bytes.splice(at..at + len, lie);
                bytes
            })
        })
    }
}

fn lies(kind: Length, remaining: usize) -> Vec<Vec<u8>> {
    match kind {
        Length::Short => [i16::MAX, -1, -2, i16::MIN, remaining.saturating_add(1).min(32767) as i16]
            .map(|lie| lie.to_be_bytes().to_vec())
            .to_vec(),
        Length::Int => [i32::MAX, -1, -2, i32::MIN, remaining as i32 + 1, remaining as i32, 1 << 24]
            .map(|lie| lie.to_be_bytes().to_vec())
            .to_vec(),
        Length::Varint => {
            let long = [&[0xff; 9][..], &[0x01]].concat();
            let numbers = [
                0,
                1 << 31,
                (1 << 31) - 1,
                (1 << 32) - 1,
                (1 << 32) - 2,
                remaining as u64 + 1,
                remaining as u64 + 2,
            ];
            numbers.into_iter().map(varint).chain([long]).collect()
        }
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// The bytes in hex, for a failed assertion.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}
