//! Proof of absence: what it takes to say that an instance is gone (INV-1).

use std::fmt;
use std::time::Instant;

use crate::{Error, Result};

/// The instance does not exist.
///
/// Saying so can cost a Node, therefore this cannot be made from an error, an empty answer or a part of a list. There
/// are two ways to it: the cloud's own "no such id" ([`Gone::no_such_id`], [`Gone::no_such_name`]) and a list that was
/// read to its end ([`CompleteListing::absence_of`]).
///
/// ```
/// use cloud_provider::Gone;
///
/// let gone = Gone::no_such_name("wroker-1").with_hint("closest: \"worker-1\"");
/// assert_eq!(gone.reason(), r#"the cloud has no instance named "wroker-1"; closest: "worker-1""#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Gone {
    reason: Box<str>,
}

impl Gone {
    /// The cloud answered a request for exactly this id, sent with a valid credential, with "no such instance".
    ///
    /// Not for a 401, 403, 429 or 5xx, not for a 404 of a gateway, and not for a 404 that a wrong region or project
    /// would answer as well, if the API lets you tell.
    #[must_use]
    pub fn no_such_id(id: &str) -> Self {
        Self { reason: format!("the cloud has no instance with id {id:?}").into() }
    }

    /// The cloud answered a search for exactly this name with "none". A Node that never had a provider id may simply
    /// have another name in the cloud, so controllers wait longer before they believe this one (D-2).
    #[must_use]
    pub fn no_such_name(name: &str) -> Self {
        Self { reason: format!("the cloud has no instance named {name:?}").into() }
    }

    /// Adds what helps a person, such as the closest name: `…; closest: "worker-1"` (P-6).
    #[must_use]
    pub fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self { reason: format!("{}; {hint}", self.reason).into() }
    }

    /// How it was found out, for logs and events.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Debug for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gone({:?})", &*self.reason)
    }
}

/// A list that is being read, page by page.
///
/// ```
/// use cloud_provider::Listing;
///
/// let mut listing = Listing::new();
/// listing.page(vec!["a", "b"], true);
/// assert!(listing.clone().finish().is_err(), "the cloud said that there is more");
/// listing.page(vec!["c"], false).announced(3);
/// let all = listing.finish()?;
/// assert!(all.absence_of("d").is_ok());
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Listing<T> {
    items: Vec<T>,
    pages: usize,
    more: bool,
    announced: Option<usize>,
    began: Instant,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Listing<T> {
    /// An empty listing, before its first page is asked for.
    #[must_use]
    pub fn new() -> Self {
        Self { items: Vec::new(), pages: 0, more: true, announced: None, began: Instant::now() }
    }

    /// Adds a page. `more`: whether the cloud says that another one follows.
    pub fn page(&mut self, items: Vec<T>, more: bool) -> &mut Self {
        self.items.extend(items);
        self.pages += 1;
        self.more = more;
        self
    }

    /// How many items the cloud says there are in all. Checked at the end.
    pub fn announced(&mut self, total: usize) -> &mut Self {
        self.announced = Some(total);
        self
    }

    /// Number of pages so far.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// If no page was read, another one should have followed, or fewer items arrived than the cloud announced: such a
    /// list says nothing about what is not in it.
    pub fn finish(self) -> Result<CompleteListing<T>> {
        if self.pages == 0 || self.more {
            return Err(Error::other(format!("the cloud's list broke off after {} page(s)", self.pages)));
        }
        if let Some(total) = self.announced.filter(|total| *total > self.items.len()) {
            return Err(Error::other(format!(
                "the cloud announced {total} items but listed {}; the list is not used",
                self.items.len()
            )));
        }
        Ok(CompleteListing { items: self.items, pages: self.pages, began: self.began })
    }
}

/// A list that was read from its first page to its last.
///
/// ```
/// use cloud_provider::Listing;
///
/// let mut listing = Listing::new();
/// listing.page(vec!["acme://1", "acme://2"], false);
/// let all = listing.finish()?;
/// assert_eq!((all.items().len(), all.pages()), (2, 1));
/// assert!(all.absence_of("acme://9")?.reason().contains("2 instances"));
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompleteListing<T> {
    items: Vec<T>,
    pages: usize,
    began: Instant,
}

impl<T> CompleteListing<T> {
    /// Everything in it.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Everything in it, to keep.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns the list of what each item holds, such as the machines of a reservation, as old as this one.
    #[must_use]
    pub fn flat_map<U, I: IntoIterator<Item = U>>(self, inner: impl Fn(T) -> I) -> CompleteListing<U> {
        let items = self.items.into_iter().flat_map(inner).collect();
        CompleteListing { items, pages: self.pages, began: self.began }
    }

    /// How many requests it took.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// When its first page was asked for; what it says is at most this old.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The list's statement about something that is not in it. The caller has looked.
    ///
    /// # Errors
    /// If the list is empty: a wrong project, account or region gives an empty list too, so it proves nothing (D-2).
    pub fn absence_of(&self, what: &str) -> Result<Gone> {
        if self.items.is_empty() {
            return Err(Error::other(
                "the cloud lists no instance at all, which proves nothing; check project, account, region and credential",
            ));
        }
        Ok(Gone {
            reason: format!("{what:?} is not among the {} instances that the cloud lists", self.items.len()).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_ends_early_proves_nothing() {
        let mut listing = Listing::new();
        assert!(listing.clone().finish().is_err(), "no page at all");
        listing.page(vec![1, 2], true);
        assert!(listing.finish().is_err(), "more was announced");
    }

    #[test]
    fn a_list_with_a_missing_page_proves_nothing() {
        let mut listing = Listing::new();
        listing.page(vec![1, 2], true).page(vec![5], false).announced(5);
        assert_eq!(
            listing.finish().unwrap_err().to_string(),
            "the cloud announced 5 items but listed 3; the list is not used"
        );
    }

    #[test]
    fn an_empty_list_proves_nothing() {
        let mut listing = Listing::<u8>::new();
        listing.page(vec![], false).announced(0);
        assert!(listing.finish().unwrap().absence_of("x").is_err());
    }

    #[test]
    fn a_whole_list_proves_that_something_is_not_in_it() {
        let mut listing = Listing::new();
        listing.page(vec![1, 2], true).page(vec![3], false).announced(3);
        let gone = listing.finish().unwrap().absence_of("acme://9").unwrap().with_hint("closest: \"acme://3\"");
        assert_eq!(
            gone.reason(),
            "\"acme://9\" is not among the 3 instances that the cloud lists; closest: \"acme://3\""
        );
    }
}
