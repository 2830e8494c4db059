//! The forms in which APIs page their lists: `{"machines": […], "meta": {"total": 7}, "links": {"next": "…"}}` and the like.

use std::fmt;
use std::hash::Hash;

use cloud_provider::{Listing, Result};
use http::HeaderMap;
use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::{ListProperties, ListResult, Position, Progress, Step};
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
/// let oci = Paging::token_header("page", "opc-next-page").size("limit", 500);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    next: Next,
    size: Option<(&'static str, usize)>,
    total: Option<&'static str>,
    is_total_required: bool,
    /// A field that each answer has, if one without items has no field for them.
    constant_field: Option<&'static str>,
    /// The field of an answer that is `true` if there is another page.
    truncated: Option<&'static str>,
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
    /// A token for the query parameter of this name, in a header of this name.
    TokenHeader(&'static str, &'static str),
    /// A link that has the value for the query parameter of this name.
    TokenLink(&'static str, &'static str),
    /// The parameter `marker` of the next link in `<collection>_links`.
    MarkerLink,
}

impl Paging {
    const fn of(next: Next) -> Self {
        Self {
            next,
            size: None,
            total: None,
            is_total_required: false,
            constant_field: None,
            truncated: None,
        }
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

    /// Declares an API with the page parameter `key`, whose answers have its next value in the header `header`, or no
    /// such header.
    #[must_use]
    pub const fn token_header(key: &'static str, header: &'static str) -> Self {
        Self::of(Next::TokenHeader(key, header))
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
        Self {
            size: Some((key, items)),
            ..self
        }
    }

    /// Compares the number of listed items with the total that an answer has at `place`, if it has one.
    #[must_use]
    pub const fn total(self, place: &'static str) -> Self {
        Self {
            total: Some(place),
            ..self
        }
    }

    /// Like [`total`](Self::total), but a page without a total is an error: such lists prove that a machine that they
    /// lack does not exist.
    #[must_use]
    pub const fn required_total(self, place: &'static str) -> Self {
        Self {
            is_total_required: true,
            ..self.total(place)
        }
    }

    /// Takes an answer without the collection for an empty page, if it has this field: `kind`, in the APIs of Google.
    ///
    /// ```
    /// use provider_kit::paging::Paging;
    ///
    /// let gcp = Paging::token("pageToken", "/nextPageToken").size("maxResults", 500).omits_empty("kind");
    /// ```
    #[must_use]
    pub const fn omits_empty(self, constant_field: &'static str) -> Self {
        Self {
            constant_field: Some(constant_field),
            ..self
        }
    }

    /// Makes a list partial if the answer without a next page has `true` at `place`: the cloud says that there are more
    /// items, but not where.
    #[must_use]
    pub const fn truncated(self, place: &'static str) -> Self {
        Self {
            truncated: Some(place),
            ..self
        }
    }

    /// Returns the first page number, if pages have numbers, and the query parameter of pages.
    const fn key(self) -> (Option<u32>, &'static str) {
        match self.next {
            Next::Whole | Next::Number(_) | Next::Count(_) | Next::Link(_) => (Some(1), "page"),
            Next::Token(key, _) | Next::TokenHeader(key, _) | Next::TokenLink(key, _) => {
                (None, key)
            }
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
            Next::Whole | Next::TokenHeader(..) => None,
            Next::MarkerLink if field.strip_prefix(collection) == Some("_links") => return true,
            Next::MarkerLink => None,
        };
        let is_in = |place: &&str| place.split('/').nth(1) == Some(field);
        self.constant_field == Some(field)
            || place
                .iter()
                .chain(&self.total)
                .chain(&self.truncated)
                .any(is_in)
    }

    fn next_number(self, fields: &Value, here: u32) -> Result<Option<u32>, &'static str> {
        let (place, is_last) = match self.next {
            Next::Number(place) | Next::Count(place) => (place, false),
            Next::Link(place) => (place, true),
            Next::Whole
            | Next::Token(..)
            | Next::TokenHeader(..)
            | Next::TokenLink(..)
            | Next::MarkerLink => {
                return Ok(None);
            }
        };
        // A field that has moved elsewhere must not end a list.
        let is_missing = |place: &str| {
            fields
                .pointer(place.rsplit_once('/').map_or("", |(parent, _)| parent))
                .is_none()
        };
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        match (
            self.next,
            fields.pointer(place).filter(|value| !value.is_null()),
        ) {
            (_, None) if !is_last && is_missing(place) => {
                Err("the field of the next page is missing")
            }
            (Next::Count(_), None) => Err("the number of pages is missing"),
            (_, None) => Ok(None),
            (Next::Link(_), Some(link)) => {
                let link = link
                    .as_str()
                    .ok_or("the link of the next page is not a string")?;
                let named = parameter(link, "page")
                    .map(|page| page.parse().map_err(|_| "the next page is not a number"));
                Ok(named
                    .transpose()?
                    .or((!link.is_empty()).then_some(here + 1)))
            }
            (Next::Count(_), Some(count)) => Ok((here
                < number(count).ok_or("the number of pages is not a number")?)
            .then_some(here + 1)),
            (_, Some(next)) => Ok(Some(number(next).ok_or("the next page is not a number")?)
                .filter(|next| *next != 0)),
        }
    }

    fn next_token(
        self,
        headers: &HeaderMap,
        fields: &Value,
        collection: &str,
    ) -> Result<Option<String>, &'static str> {
        if let Next::TokenHeader(_, header) = self.next {
            let token = headers.get(header).map(|token| {
                token
                    .to_str()
                    .map_err(|_| "the header of the next page is no text")
            });
            return Ok(token
                .transpose()?
                .filter(|token| !token.is_empty())
                .map(str::to_owned));
        }
        if let Next::Token(_, place) = self.next {
            let Some(token) = fields.pointer(place).filter(|value| !value.is_null()) else {
                return Ok(None);
            };
            let token = token
                .as_str()
                .ok_or("the token of the next page is not a string")?;
            return Ok(Some(token.to_owned()).filter(|token| !token.is_empty()));
        }
        if let Next::TokenLink(key, place) = self.next {
            let Some(link) = fields.pointer(place).filter(|value| !value.is_null()) else {
                return Ok(None);
            };
            let link = link
                .as_str()
                .ok_or("the link of the next page is not a string")?;
            let token = parameter(link, key)
                .map(Some)
                .ok_or("the link of the next page has no token");
            return if link.is_empty() { Ok(None) } else { token };
        }
        let links = fields
            .get(format!("{collection}_links"))
            .and_then(Value::as_array);
        let Some(next) = links
            .into_iter()
            .flatten()
            .find(|link| link["rel"] == "next")
        else {
            return Ok(None);
        };
        next["href"]
            .as_str()
            .and_then(|link| parameter(link, "marker"))
            .map(Some)
            .ok_or("the next page has no marker")
    }
}

impl Transport {
    /// Reads a list to its end, in the form that was [declared](crate::transport::Builder::paging); `collection` is the
    /// field that holds the items; it is empty if an answer is a bare list. `keep` converts each item as soon as it is
    /// read. All pages have the priority of the most urgent caller; `key` identifies items.
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
        self.list_as::<Json, W, T, K>(call, collection, shared_priority, keep, key)
            .await
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
        let what = if collection.is_empty() {
            "items".to_owned()
        } else {
            collection.replace('_', " ")
        };
        let mut pages = Pages::new(self.paged(), call, collection, &what);
        let listing = Listing::new();
        let mut items = Vec::new();
        // Each type of items has its own copy of this loop: whatever does not depend on it is done by `pages`.
        while let Some(answer) = pages.read(self, shared_priority).await? {
            let before = items.len();
            let mut offered = 0;
            let fields = read_page::<F, W>(&answer, collection, pages.paging, &mut |item| {
                offered += 1;
                let item = keep(item);
                if pages.progress.is_new(key(&item)) {
                    items.push(item);
                }
            })?;
            let added = items.len() - before;
            pages.add(&answer, offered, added, &fields)?;
        }
        Ok(pages.progress.finish(listing, items))
    }
}

/// The pages of a list in one of the [common forms](Paging).
struct Pages<'a> {
    paging: Paging,
    call: Call,
    collection: &'a str,
    /// Position of the page to read; `None` after the last one.
    here: Option<At>,
    progress: Progress<'a>,
}

impl<'a> Pages<'a> {
    fn new(paging: Paging, call: Call, collection: &'a str, what: &'a str) -> Self {
        let call = paging
            .size
            .iter()
            .fold(call.list(), |call, (key, items)| call.query(key, items));
        let here = paging
            .key()
            .0
            .map_or_else(|| At::Token(String::new()), At::Number);
        let progress = Progress::new(ListProperties {
            what,
            totals: paging.is_total_required,
        });
        Self {
            paging,
            call,
            collection,
            here: Some(here),
            progress,
        }
    }

    /// Reads a page; `None` after the last one.
    async fn read(
        &self,
        transport: &Transport,
        shared_priority: &SharedPriority,
    ) -> Result<Option<Answer>> {
        let position = match &self.here {
            None => return Ok(None),
            Some(At::Number(_)) if matches!(self.paging.next, Next::Whole) => None,
            Some(At::Number(number)) => Some(number.to_string()),
            Some(At::Token(token)) => Some(token.clone()).filter(|token| !token.is_empty()),
        };
        let parameter = self.paging.key().1;
        let call = position.iter().fold(self.call.clone(), |call, position| {
            call.query(parameter, position)
        });
        shared_priority
            .send_read(|priority| transport.send(call.clone().with_priority(priority)))
            .await
            .map(Some)
    }

    /// Adds the page that was read, with the fields around its items.
    fn add(&mut self, answer: &Answer, offered: usize, added: usize, fields: &Value) -> Result<()> {
        let Some(here) = self.here.take() else {
            return Ok(());
        };
        let total = self
            .paging
            .total
            .and_then(|place| fields.pointer(place)?.as_u64());
        let total = total.and_then(|total| total.try_into().ok());
        let next = match &here {
            At::Number(here) => self
                .paging
                .next_number(fields, *here)
                .map(|next| next.map(At::Number)),
            At::Token(_) => self
                .paging
                .next_token(&answer.headers, fields, self.collection)
                .map(|next| next.map(At::Token)),
        };
        let next = next.map_err(|text| answer.unexpected(&text))?;
        let step = next.as_ref().map(|next| Step {
            here: &here,
            next,
            follows: next.follows(&here),
        });
        let goes_on = self.progress.add(offered, added, total, step.as_ref());
        let is_truncated = |place| fields.pointer(place) == Some(&Value::Bool(true));
        if next.is_none() && self.paging.truncated.is_some_and(is_truncated) {
            self.progress.mark_partial(
                "the last page says that there is another one, but not where".to_owned(),
            );
        }
        self.here = next.filter(|_| goes_on);
        Ok(())
    }
}

/// The position of a page in one of the [common forms](Paging).
#[derive(PartialEq)]
enum At {
    Number(u32),
    Token(String),
}

impl At {
    fn follows(&self, previous: &Self) -> bool {
        match (self, previous) {
            (Self::Number(here), Self::Number(previous)) => here.follows(previous),
            _ => self != previous,
        }
    }
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Token(token) => token.fmt(f),
        }
    }
}

/// Reads the items of one page, and returns the other fields that the paging needs.
fn read_page<F: Format, W: DeserializeOwned>(
    answer: &Answer,
    collection: &str,
    paging: Paging,
    add: &mut dyn FnMut(W),
) -> Result<Value> {
    let mut found = Map::new();
    let mut is_there = false;
    let reads = |field: &str| paging.reads(field, collection);
    let seed = Top {
        collection,
        reads: &reads,
        found: &mut found,
        is_there: &mut is_there,
        add,
    };
    answer.decoded::<F, _>(seed)?;
    if !is_there
        && !paging
            .constant_field
            .is_some_and(|field| found.contains_key(field))
    {
        return Err(answer.unexpected(&format!("no field {collection:?}")));
    }
    Ok(Value::Object(found))
}

/// Returns the value of a parameter in a link's query; `None` without a value.
fn parameter(link: &str, name: &str) -> Option<String> {
    let query = link.split_once('?')?.1.split('#').next()?;
    // Some clouds write the name in another case.
    let (_, value) =
        form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(value.into_owned()).filter(|value| !value.is_empty())
}

/// A visitor of the object around the collection.
struct Top<'a, W> {
    collection: &'a str,
    reads: &'a dyn Fn(&str) -> bool,
    found: &'a mut Map<String, Value>,
    /// Set as soon as the collection was read.
    is_there: &'a mut bool,
    add: &'a mut dyn FnMut(W),
}

impl<'de, W: Deserialize<'de>> DeserializeSeed<'de> for Top<'_, W> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.collection.is_empty() {
            *self.is_there = true;
            return Items(self.add).deserialize(from);
        }
        from.deserialize_map(self)
    }
}

impl<'de, W: Deserialize<'de>> Visitor<'de> for Top<'_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {:?}", self.collection)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == self.collection {
                fields.next_value_seed(Items(&mut *self.add))?;
                *self.is_there = true;
            } else if (self.reads)(&key) {
                self.found.insert(key, fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A visitor of the collection's items.
struct Items<'a, W>(&'a mut dyn FnMut(W));

impl<'de, W: Deserialize<'de>> DeserializeSeed<'de> for Items<'_, W> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, W: Deserialize<'de>> Visitor<'de> for Items<'_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(item) = items.next_element::<W>()? {
            if count == MOST_ITEMS {
                return Err(too_many());
            }
            count += 1;
            (self.0)(item);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
