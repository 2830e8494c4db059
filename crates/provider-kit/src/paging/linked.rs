//! Pages that link to the next one: `{"machines": […], "machines_links": [{"rel": "next", "href": "…?marker=…"}]}`.

use std::fmt;
use std::marker::PhantomData;

use cloud_provider::Result;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Page;
use crate::streamed::{MOST_ITEMS, too_many};
use crate::transport::Answer;

/// Reads one page of `collection`. What is read becomes what is kept, one item after the other. The next page's position is
/// its marker: links may lead to an address that only the cloud itself can reach.
///
/// # Errors
/// *Other*, naming the route, if the answer is no such page, or has more items than [`MOST_ITEMS`].
pub fn linked_page<W: DeserializeOwned, T>(
    answer: &Answer,
    collection: &str,
    mut keep: impl FnMut(W) -> T,
) -> Result<Page<T, String>> {
    let mut page = Found { items: None, next: None };
    let mut json = serde_json::Deserializer::from_slice(&answer.body);
    let seed = Top { collection, page: &mut page, keep: &mut keep, wire: PhantomData::<W> };
    let read = seed.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|err| answer.unexpected(&err))?;
    let items = page.items.ok_or_else(|| answer.unexpected(&format!("it has no {collection:?}")))?;
    let next = page.next.map(|href| marker(&href).ok_or_else(|| answer.unexpected(&"the next page has no marker")));
    Ok(Page { items, next: next.transpose()?, total: None })
}

/// The value of `marker` in a link's query.
fn marker(href: &str) -> Option<String> {
    let query = href.split_once('?')?.1.split('#').next()?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix("marker="))?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok().filter(|marker| !marker.is_empty())
}

struct Found<T> {
    items: Option<Vec<T>>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Link {
    rel: String,
    href: String,
}

/// The object around the collection.
struct Top<'a, W, T, F> {
    collection: &'a str,
    page: &'a mut Found<T>,
    keep: &'a mut F,
    wire: PhantomData<W>,
}

impl<'de, W: Deserialize<'de>, T, F: FnMut(W) -> T> DeserializeSeed<'de> for Top<'_, W, T, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, W: Deserialize<'de>, T, F: FnMut(W) -> T> Visitor<'de> for Top<'_, W, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {:?}", self.collection)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == self.collection {
                let items = Items { keep: &mut *self.keep, wire: PhantomData };
                self.page.items = Some(fields.next_value_seed(items)?);
            } else if key.strip_prefix(self.collection) == Some("_links") {
                let links: Vec<Link> = fields.next_value()?;
                self.page.next = links.into_iter().find(|link| link.rel == "next").map(|link| link.href);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The collection.
struct Items<'a, W, F> {
    keep: &'a mut F,
    wire: PhantomData<W>,
}

impl<'de, W: Deserialize<'de>, T, F: FnMut(W) -> T> DeserializeSeed<'de> for Items<'_, W, F> {
    type Value = Vec<T>;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<T>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, W: Deserialize<'de>, T, F: FnMut(W) -> T> Visitor<'de> for Items<'_, W, F> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element::<W>()? {
            if kept.len() == MOST_ITEMS {
                return Err(too_many());
            }
            kept.push((self.keep)(item));
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Machine {
        id: u32,
    }

    fn page(body: &str) -> Result<Page<u32, String>> {
        linked_page(&Answer::of(body.to_owned()), "machines", |machine: Machine| machine.id)
    }

    #[test]
    fn the_next_page_is_where_the_link_says() {
        let links = r#"[{"rel":"previous","href":"x?marker=0"},{"rel":"next","href":"http://in/v2/machines?limit=2&marker=a%2Fb"}]"#;
        let first =
            page(&format!(r#"{{"machines_links":{links},"machines":[{{"id":1,"x":[]}},{{"id":2}}],"more":{{}}}}"#))
                .unwrap();
        assert_eq!((first.items, first.next.as_deref()), (vec![1, 2], Some("a/b")));
        let last = page(r#"{"machines":[],"machines_links":[{"rel":"previous","href":"x"}]}"#).unwrap();
        assert_eq!((last.items.len(), last.next), (0, None));
    }

    #[test]
    fn what_is_no_page_is_an_error_and_not_an_empty_list() {
        for body in [
            "{}",
            "[]",
            "",
            r#"{"servers":[]}"#,
            r#"{"machines":{}}"#,
            r#"{"machines":[{"name":"no id"}]}"#,
            r#"{"machines":[],"machines_links":[{"rel":"next","href":"http://in/machines"}]}"#,
            r#"{"machines":[],"machines_links":[{"rel":"next","href":"http://in/machines?marker=%f"}]}"#,
            r#"{"machines":[]} trailing"#,
        ] {
            assert!(page(body).unwrap_err().to_string().contains("unexpected body"), "{body}");
        }
    }

    #[test]
    fn a_page_of_more_items_than_anybody_has_is_an_error() {
        let items = |count: usize| format!("{}{}", r#"{"id":1},"#.repeat(count - 1), r#"{"id":1}"#);
        let body = |count| format!(r#"{{"machines":[{}]}}"#, items(count));
        assert_eq!(page(&body(MOST_ITEMS)).unwrap().items.len(), MOST_ITEMS);
        assert!(page(&body(MOST_ITEMS + 1)).unwrap_err().to_string().contains("more than 100000 items"));
    }
}
