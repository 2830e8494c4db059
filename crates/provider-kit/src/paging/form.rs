//! The forms in which APIs page their lists: `{"machines": […], "meta": {"total": 7}, "links": {"next": "…"}}` and the like.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use cloud_provider::{Error, Result};
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ListProperties, ListResult, Page, read_pages};
use crate::inventory::SharedPriority;
use crate::streamed::{MOST_ITEMS, too_many};
use crate::transport::{Answer, Call, Format, Json, Transport};

/// The form in which an API pages its lists. Places in an answer are JSON pointers.
///
/// ```
/// use provider_kit::paging::Paging;
///
/// let digitalocean = Paging::next_link("/links/pages/next").size("per_page", 200).total("/meta/total");
/// let linode = Paging::page_count("/pages").size("page_size", 500).total("/results");
/// let vultr = Paging::token("cursor", "/meta/links/next").size("per_page", 500).total("/meta/total");
/// let gcp = Paging::token("pageToken", "/nextPageToken").size("maxResults", 500);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    next: Next,
    size: Option<(&'static str, usize)>,
    total: Option<&'static str>,
    is_total_required: bool,
}

/// The field of an answer that shows if there is another page.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// No field: the API answers whole lists.
    Whole,
    /// The number of the next page, if there is one.
    Number(&'static str),
    /// The number of pages.
    Count(&'static str),
    /// A link, or an empty text on the last page. The next page has the number in the link's `page`, or else the
    /// following number.
    Link(&'static str),
    /// A token for the query parameter of this name.
    Token(&'static str, &'static str),
    /// A link that has the value for the query parameter of this name.
    TokenLink(&'static str, &'static str),
    /// The parameter `marker` of the next link in `<collection>_links`.
    MarkerLink,
}

impl Paging {
    const fn of(next: Next) -> Self {
        Self { next, size: None, total: None, is_total_required: false }
    }

    /// An API that answers whole lists.
    pub const WHOLE: Self = Self::of(Next::Whole);

    /// Declares an API with the page parameter `page`, from 1 on, whose answers name the next page at `place`: a
    /// number, or null.
    #[must_use]
    pub const fn next_page(place: &'static str) -> Self {
        Self::of(Next::Number(place))
    }

    /// Declares an API with the page parameter `page`, from 1 on, whose answers have the number of pages at `place`.
    #[must_use]
    pub const fn page_count(place: &'static str) -> Self {
        Self::of(Next::Count(place))
    }

    /// Declares an API with the page parameter `page`, from 1 on, whose answers have a link at `place` if there is
    /// another page. The link itself is not followed, because it may lead to an address that only the cloud can reach.
    /// If it names another page than the following one, the list is partial.
    #[must_use]
    pub const fn next_link(place: &'static str) -> Self {
        Self::of(Next::Link(place))
    }

    /// Declares an API with the page parameter `key`, whose answers have its next value at `place`, or nothing.
    #[must_use]
    pub const fn token(key: &'static str, place: &'static str) -> Self {
        Self::of(Next::Token(key, place))
    }

    /// Declares an API with the page parameter `key`, whose answers have a link at `place` if there is another page. The
    /// link itself is not followed: only the parameter, in any case of letters, is taken from it.
    #[must_use]
    pub const fn token_link(key: &'static str, place: &'static str) -> Self {
        Self::of(Next::TokenLink(key, place))
    }

    /// Declares an API with the page parameter `marker`, whose next value is in a link:
    /// `<collection>_links: [{"rel": "next", "href": "…?marker=…"}]`.
    #[must_use]
    pub const fn marker_link() -> Self {
        Self::of(Next::MarkerLink)
    }

    /// Requests pages of this many items with the query parameter `key`.
    #[must_use]
    pub const fn size(self, key: &'static str, items: usize) -> Self {
        Self { size: Some((key, items)), ..self }
    }

    /// Compares the number of listed items with the total that an answer has at `place`, if it has one.
    #[must_use]
    pub const fn total(self, place: &'static str) -> Self {
        Self { total: Some(place), ..self }
    }

    /// Like [`total`](Self::total), but a page without a total is an error: such lists prove that a machine that they
    /// lack does not exist.
    #[must_use]
    pub const fn required_total(self, place: &'static str) -> Self {
        Self { is_total_required: true, ..self.total(place) }
    }

    /// Returns the first page number, if pages have numbers, and the query parameter of pages.
    const fn key(self) -> (Option<u32>, &'static str) {
        match self.next {
            Next::Whole | Next::Number(_) | Next::Count(_) | Next::Link(_) => (Some(1), "page"),
            Next::Token(key, _) | Next::TokenLink(key, _) => (None, key),
            Next::MarkerLink => (None, "marker"),
        }
    }

    /// Returns `true` if a field of the answer is needed to find the next page or the total.
    fn reads(self, field: &str, collection: &str) -> bool {
        let place = match self.next {
            Next::Number(place)
            | Next::Count(place)
            | Next::Link(place)
            | Next::Token(_, place)
            | Next::TokenLink(_, place) => Some(place),
            Next::Whole => None,
            Next::MarkerLink if field.strip_prefix(collection) == Some("_links") => return true,
            Next::MarkerLink => None,
        };
        let is_in = |place: &&str| place.split('/').nth(1) == Some(field);
        place.iter().chain(self.total.iter()).any(is_in)
    }

    fn next_number(self, fields: &Value, here: u32) -> Result<Option<u32>, &'static str> {
        let (place, is_last) = match self.next {
            Next::Number(place) | Next::Count(place) => (place, false),
            Next::Link(place) => (place, true),
            Next::Whole | Next::Token(..) | Next::TokenLink(..) | Next::MarkerLink => return Ok(None),
        };
        // A field that has moved elsewhere must not end a list.
        let is_missing =
            |place: &str| fields.pointer(place.rsplit_once('/').map_or("", |(parent, _)| parent)).is_none();
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        match (self.next, fields.pointer(place).filter(|value| !value.is_null())) {
            (_, None) if !is_last && is_missing(place) => Err("the field of the next page is missing"),
            (Next::Count(_), None) => Err("the number of pages is missing"),
            (_, None) => Ok(None),
            (Next::Link(_), Some(link)) => {
                let link = link.as_str().ok_or("the link of the next page is not a string")?;
                let named =
                    parameter(link, "page").map(|page| page.parse().map_err(|_| "the next page is not a number"));
                Ok(named.transpose()?.or((!link.is_empty()).then_some(here + 1)))
            }
            (Next::Count(_), Some(count)) => {
                Ok((here < number(count).ok_or("the number of pages is not a number")?).then_some(here + 1))
            }
            (_, Some(next)) => Ok(Some(number(next).ok_or("the next page is not a number")?).filter(|next| *next != 0)),
        }
    }

    fn next_token(self, fields: &Value, collection: &str) -> Result<Option<String>, &'static str> {
        if let Next::Token(_, place) = self.next {
            let Some(token) = fields.pointer(place).filter(|value| !value.is_null()) else { return Ok(None) };
            let token = token.as_str().ok_or("the token of the next page is not a string")?;
            return Ok(Some(token.to_owned()).filter(|token| !token.is_empty()));
        }
        if let Next::TokenLink(key, place) = self.next {
            let Some(link) = fields.pointer(place).filter(|value| !value.is_null()) else { return Ok(None) };
            let link = link.as_str().ok_or("the link of the next page is not a string")?;
            let token = parameter(link, key).map(Some).ok_or("the link of the next page has no token");
            return if link.is_empty() { Ok(None) } else { token };
        }
        let links = fields.get(format!("{collection}_links")).and_then(Value::as_array);
        let Some(next) = links.into_iter().flatten().find(|link| link["rel"] == "next") else { return Ok(None) };
        next["href"].as_str().and_then(|link| parameter(link, "marker")).map(Some).ok_or("the next page has no marker")
    }
}

impl Transport {
    /// Reads a list to its end, in the form that was [declared](crate::transport::Builder::paging); `collection` is the
    /// field that holds the items. `keep` converts each item as soon as it is read. All pages have the priority of the
    /// most urgent caller; `key` identifies items.
    ///
    /// # Errors
    /// The answer of the cloud, if a page could not be read; *other* if an answer has no such field.
    pub async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        call: Call,
        collection: &str,
        shared_priority: &SharedPriority,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        self.list_as::<Json, W, T, K>(call, collection, shared_priority, keep, key).await
    }

    /// Reads a list to its end like [`list`](Self::list), from answers in another format.
    ///
    /// # Errors
    /// The answer of the cloud, if any page could not be read; *other* if one has no such field.
    pub async fn list_as<F: Format, W: DeserializeOwned, T, K: Hash>(
        &self,
        call: Call,
        collection: &str,
        shared_priority: &SharedPriority,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let paging = self.paged();
        let (first, parameter) = paging.key();
        let call = paging.size.iter().fold(call.list(), |call, (key, items)| call.query(key, items));
        let what = collection.replace('_', " ");
        let rules = ListProperties { what: &what, totals: paging.is_total_required };
        let page = async |position: Option<String>| {
            let call = position.iter().fold(call.clone(), |call, position| call.query(parameter, position));
            let answer = shared_priority.send_read(|priority| self.send(call.clone().with_priority(priority))).await?;
            let (items, fields) =
                read_page::<F, W, T>(&answer, collection, |field| paging.reads(field, collection), &keep)?;
            let total =
                paging.total.and_then(|place| fields.pointer(place)?.as_u64()).and_then(|it| it.try_into().ok());
            Ok::<_, Error>((answer, items, fields, total))
        };
        match first {
            Some(first) => {
                read_pages(rules, first, key, async |here: u32| {
                    let position = (!matches!(paging.next, Next::Whole)).then(|| here.to_string());
                    let (answer, items, fields, total) = page(position).await?;
                    let next = paging.next_number(&fields, here).map_err(|text| answer.unexpected(&text))?;
                    Ok(Page { items, next, total })
                })
                .await
            }
            None => {
                read_pages(rules, String::new(), key, async |token: String| {
                    let (answer, items, fields, total) = page(Some(token).filter(|it| !it.is_empty())).await?;
                    let next = paging.next_token(&fields, collection).map_err(|text| answer.unexpected(&text))?;
                    Ok(Page { items, next, total })
                })
                .await
            }
        }
    }
}

/// Reads the items of one page, and the other fields that `reads` selects.
fn read_page<F: Format, W: DeserializeOwned, T>(
    answer: &Answer,
    collection: &str,
    reads: impl Fn(&str) -> bool,
    mut keep: impl FnMut(W) -> T,
) -> Result<(Vec<T>, Value)> {
    let mut found = Found { items: None, fields: Map::new() };
    let seed = Top { collection, reads: &reads, found: &mut found, keep: &mut keep, wire: PhantomData::<W> };
    answer.decoded::<F, _>(seed)?;
    let items = found.items.ok_or_else(|| answer.unexpected(&format!("no field {collection:?}")))?;
    Ok((items, Value::Object(found.fields)))
}

/// Returns the value of a parameter in a link's query; `None` without a value.
fn parameter(link: &str, name: &str) -> Option<String> {
    let query = link.split_once('?')?.1.split('#').next()?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    // Some clouds encode the `$` of a parameter's name.
    let (_, value) = { pairs }.find(|(key, _)| key.replace("%24", "$").eq_ignore_ascii_case(name))?;
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
    String::from_utf8(bytes).ok().filter(|value| !value.is_empty())
}

struct Found<T> {
    items: Option<Vec<T>>,
    fields: Map<String, Value>,
}

/// A visitor of the object around the collection.
struct Top<'a, W, T, F> {
    collection: &'a str,
    reads: &'a dyn Fn(&str) -> bool,
    found: &'a mut Found<T>,
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
                self.found.items = Some(fields.next_value_seed(items)?);
            } else if (self.reads)(&key) {
                self.found.fields.insert(key, fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A visitor of the collection's items.
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
mod tests;
