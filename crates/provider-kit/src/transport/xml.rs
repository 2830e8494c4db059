//! A deserializer from XML to serde structs. The type of a field decides if its element is read as a list, a number or
//! a text.

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;
use quick_xml::reader::Reader;
use serde::de::value::{Error, StringDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;

/// The maximum nesting depth of elements; a deeper body is refused, because it may be an attack on the parser.
const DEEPEST: usize = 64;

/// Reads the content of the root element.
pub(super) fn read<'a, S: DeserializeSeed<'a>>(body: &'a [u8], seed: S) -> Result<S::Value, Error> {
    let text = std::str::from_utf8(body).map_err(Error::custom)?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut content = Content {
        reader,
        peeked: None,
        depth: 0,
    };
    let root = loop {
        match content.next()? {
            Token::Open(root) => break root,
            Token::Text(text) if text.trim().is_empty() => {}
            _ => return Err(Error::custom("expected an XML element")),
        }
    };
    let result = root
        .strip_suffix("Response")
        .map(|action| format!("{action}Result"));
    let is_wrapped =
        matches!((content.peek()?, &result), (Token::Open(name), Some(result)) if name == result);
    if is_wrapped {
        content.next()?;
    }
    let value = seed.deserialize(&mut content)?;
    // The rest of the body is not used, but is read to its end, so that a body that was cut off is refused.
    if is_wrapped {
        content.skip()?;
    }
    Ok(value)
}

/// The content of an element whose start was read. Every method reads up to and including the element's end.
struct Content<'a> {
    reader: Reader<&'a [u8]>,
    peeked: Option<Token>,
    depth: usize,
}

#[derive(Debug)]
enum Token {
    Open(String),
    Text(String),
    Close,
}

impl Content<'_> {
    fn next(&mut self) -> Result<Token, Error> {
        if let Some(token) = self.peeked.take() {
            return Ok(token);
        }
        loop {
            return Ok(match self.reader.read_event().map_err(Error::custom)? {
                Event::Start(start) => Token::Open(start.local_name().into_inner().to_owned()),
                Event::End(_) => Token::Close,
                Event::Text(text) => Token::Text(text.xml10_content().into_owned()),
                Event::CData(text) => Token::Text(text.xml10_content().into_owned()),
                Event::GeneralRef(entity) => {
                    let character = entity
                        .resolve_char_ref()
                        .map_err(Error::custom)?
                        .map(String::from);
                    let text = character.or_else(|| resolve_xml_entity(&entity).map(str::to_owned));
                    Token::Text(text.ok_or_else(|| Error::custom("unknown entity"))?)
                }
                Event::Eof => return Err(Error::custom("the XML document ends too early")),
                Event::DocType(_) => {
                    return Err(Error::custom("unexpected document type definition"));
                }
                _ => continue,
            });
        }
    }

    /// Returns the next token without white space before an element or at the end.
    fn peek(&mut self) -> Result<&Token, Error> {
        let mut token = self.next()?;
        if let Token::Text(text) = &token
            && text.trim().is_empty()
        {
            let following = self.next()?;
            token = match following {
                Token::Text(more) => Token::Text(format!("{text}{more}")),
                other => other,
            };
        }
        Ok(self.peeked.insert(token))
    }

    fn text(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        loop {
            match self.next()? {
                Token::Text(part) => text.push_str(&part),
                Token::Close => return Ok(text),
                Token::Open(name) => {
                    return Err(Error::custom(format!(
                        "expected a text, found the element {name:?}"
                    )));
                }
            }
        }
    }

    /// Reads a text that the type parses.
    fn parsed<T: std::str::FromStr>(&mut self, expected: &str) -> Result<T, Error> {
        let text = self.text()?;
        text.trim()
            .parse()
            .map_err(|_| Error::invalid_value(Unexpected::Str(&text), &expected))
    }

    /// Reads the start of the next child element, and its name; `None` at the end.
    fn child(&mut self) -> Result<Option<String>, Error> {
        self.peek()?;
        match self.next()? {
            Token::Open(name) => Ok(Some(name)),
            Token::Close => Ok(None),
            Token::Text(_) => Err(Error::custom("expected elements, found a text")),
        }
    }

    fn skip(&mut self) -> Result<(), Error> {
        let mut open = 1;
        while open > 0 {
            match self.next()? {
                Token::Open(_) => open += 1,
                Token::Close => open -= 1,
                Token::Text(_) => {}
            }
        }
        Ok(())
    }

    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::custom(format!(
                "more than {DEEPEST} elements within each other"
            )));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }
}

macro_rules! numbers {
    ($($method:ident => $visit:ident($kind:ty),)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parsed::<$kind>(stringify!($kind))?)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Content<'_> {
    type Error = Error;

    numbers! {
        deserialize_bool => visit_bool(bool),
        deserialize_i8 => visit_i64(i64),
        deserialize_i16 => visit_i64(i64),
        deserialize_i32 => visit_i64(i64),
        deserialize_i64 => visit_i64(i64),
        deserialize_u8 => visit_u64(u64),
        deserialize_u16 => visit_u64(u64),
        deserialize_u32 => visit_u64(u64),
        deserialize_u64 => visit_u64(u64),
        deserialize_f32 => visit_f64(f64),
        deserialize_f64 => visit_f64(f64),
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek()? {
            Token::Open(name) if ["item", "member"].contains(&&**name) => {
                self.deserialize_seq(visitor)
            }
            Token::Open(_) => self.deserialize_map(visitor),
            Token::Close => self.deserialize_unit(visitor),
            Token::Text(_) => visitor.visit_string(self.text()?),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek()? {
            Token::Close => {
                self.next()?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.within(|content| visitor.visit_seq(content))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.within(|content| visitor.visit_map(content))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text: StringDeserializer<Error> = self.text()?.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    forward_to_deserialize_any! { i128 u128 char bytes byte_buf unit_struct tuple tuple_struct identifier }
}

impl<'de> SeqAccess<'de> for &mut Content<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.child()?
            .map(|_| seed.deserialize(&mut **self))
            .transpose()
    }
}

impl<'de> MapAccess<'de> for &mut Content<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let name = self
            .child()?
            .map(IntoDeserializer::<Error>::into_deserializer);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut **self)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::IgnoredAny;
    use serde_json::{Value, json};

    use super::*;

    fn parse<T: for<'a> Deserialize<'a>>(xml: &str) -> Result<T, Error> {
        read(xml.as_bytes(), std::marker::PhantomData)
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Instance {
        id: String,
        count: u16,
        checked: bool,
        cost: f64,
        ip: Option<String>,
        note: String,
        state: State,
        tags: Vec<Tag>,
        names: Vec<String>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Tag {
        key: String,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum State {
        #[default]
        Pending,
        Running,
    }

    #[test]
    fn types_say_how_elements_are_read() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
            <!-- a comment -->
            <DescribeResponse xmlns="http://ec2.example/doc/">
                <requestId>7</requestId>
                <id>i-1</id> <count> 17 </count><checked>true</checked><cost>0.5</cost>
                <ip/><note></note><state>running</state>
                <tags><item><key>a &amp; &lt;b&gt; &#x41;</key><other><deep/></other></item><item><key><![CDATA[<c>]]></key></item></tags>
                <names><member>x</member><member/></names>
            </DescribeResponse>"#;
        let expected = Instance {
            id: "i-1".into(),
            count: 17,
            checked: true,
            cost: 0.5,
            state: State::Running,
            tags: vec![
                Tag {
                    key: "a & <b> A".into(),
                },
                Tag { key: "<c>".into() },
            ],
            names: vec!["x".into(), String::new()],
            ..Instance::default()
        };
        assert_eq!(parse::<Instance>(xml).unwrap(), expected);
        assert_eq!(
            parse::<Instance>("<R><tags/><names>\n</names><ip>\n</ip></R>").unwrap(),
            Instance::default()
        );
    }

    #[test]
    fn results_are_read_without_the_element_around_them() {
        let wrapped = "<AResponse><AResult><id>1</id></AResult><ResponseMetadata><x/></ResponseMetadata></AResponse>";
        assert_eq!(parse::<Instance>(wrapped).unwrap().id, "1");
        assert_eq!(parse::<IgnoredAny>("<AResponse/>").unwrap(), IgnoredAny);
        assert_eq!(
            parse::<Value>("<AResponse><BResult>1</BResult></AResponse>").unwrap(),
            json!({"BResult": "1"})
        );
        let value = parse::<Value>("<R><a><item>1</item></a><b><c/></b></R>").unwrap();
        assert_eq!(value, json!({"a": ["1"], "b": {"c": null}}));
    }

    #[test]
    fn mistakes_are_named() {
        let deep = format!("<R>{}", "<a>".repeat(DEEPEST + 1));
        let table = [
            (
                "<R><count>x</count></R>",
                "invalid value: string \"x\", expected u64",
            ),
            (
                "<R><count>70000</count></R>",
                "invalid value: integer `70000`, expected u16",
            ),
            (
                "<R><id><a/></id></R>",
                "expected a text, found the element \"a\"",
            ),
            ("<R><tags>x</tags></R>", "expected elements, found a text"),
            ("<R><id>1</id>", "the XML document ends too early"),
            (
                "<AResponse><AResult><id>1</id></AResult>",
                "the XML document ends too early",
            ),
            ("<R><id>&none;</id></R>", "unknown entity"),
            (
                "<!DOCTYPE x [<!ENTITY a \"b\">]><R/>",
                "unexpected document type definition",
            ),
            ("{\"id\": 1}", "expected an XML element"),
            ("", "the XML document ends too early"),
        ];
        for (xml, expected) in table {
            assert_eq!(
                parse::<Instance>(xml).unwrap_err().to_string(),
                expected,
                "{xml}"
            );
        }
        assert!(
            parse::<Value>(&deep)
                .unwrap_err()
                .to_string()
                .contains("more than 64 elements")
        );
        assert!(parse::<Value>("<R><a></b></R>").is_err());
    }
}
