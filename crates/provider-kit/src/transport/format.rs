//! The form of an answer's body.

use std::fmt::Display;

use serde::de::DeserializeSeed;

use super::xml;

/// A form in which APIs answer.
pub trait Format {
    /// Reads a whole body.
    ///
    /// # Errors
    /// The mistake in the body.
    fn read<'a, S: DeserializeSeed<'a>>(body: &'a [u8], seed: S) -> Result<S::Value, impl Display>;
}

/// JSON, in which most APIs answer.
#[derive(Clone, Copy, Debug)]
pub struct Json;

/// XML, in which APIs of the AWS query protocol answer: fields are elements. Numbers and booleans are read from their text, lists
/// from child elements of any name; an empty element is an empty text, an empty list, or `None`. Attributes are ignored, and so is
/// the element `ActionResult` around the content of an `ActionResponse`.
#[derive(Clone, Copy, Debug)]
pub struct Xml;

impl Format for Json {
    fn read<'a, S: DeserializeSeed<'a>>(body: &'a [u8], seed: S) -> Result<S::Value, impl Display> {
        let mut json = serde_json::Deserializer::from_slice(body);
        seed.deserialize(&mut json)
            .and_then(|value| json.end().map(|()| value))
    }
}

impl Format for Xml {
    fn read<'a, S: DeserializeSeed<'a>>(body: &'a [u8], seed: S) -> Result<S::Value, impl Display> {
        xml::read(body, seed)
    }
}
