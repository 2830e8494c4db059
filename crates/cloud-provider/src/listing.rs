//! Proof of absence: the evidence that an instance is gone (INV-1).

use std::fmt;
use std::time::Instant;

use crate::{Error, Result, counted};

/// Proof that the instance does not exist.
///
/// The proof can delete a Node, so it cannot be created from an error, an empty answer or a partial list. There are
/// two ways to create it: from the cloud's own "no such ID" ([`Gone::no_such_id`], [`Gone::no_such_name`]) and from a
/// list that was read to its end ([`CompleteListing::prove_absence`]).
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
    /// Returns the proof for an ID: the cloud answered a request for exactly this ID, sent with a valid credential,
    /// with "no such instance".
    ///
    /// Not for a 401, 403, 429 or 5xx, not for a 404 of a gateway, and not for a 404 that a wrong region or project
    /// would answer as well, if the API allows you to distinguish them.
    #[must_use]
    pub fn no_such_id(id: &str) -> Self {
        Self {
            reason: format!("the cloud has no instance with id {id:?}").into(),
        }
    }

    /// Returns the proof for a name: the cloud answered a search for exactly this name with no instance. A Node that
    /// never had a provider ID may have another name in the cloud, so controllers wait longer before they act on this
    /// proof (D-2).
    #[must_use]
    pub fn no_such_name(name: &str) -> Self {
        Self {
            reason: format!("the cloud has no instance named {name:?}").into(),
        }
    }

    /// Adds a hint for people, such as the closest name: `…; closest: "worker-1"` (P-6).
    #[must_use]
    pub fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self {
            reason: format!("{}; {hint}", self.reason).into(),
        }
    }

    /// Returns the reason, for logs and events.
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
/// listing.add_page(vec!["a", "b"], true);
/// assert!(listing.clone().finish().is_err(), "the cloud said that there is more");
/// listing.add_page(vec!["c"], false).set_announced_total(3);
/// let all = listing.finish()?;
/// assert!(all.prove_absence("d").is_ok());
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
    /// Returns an empty listing. Call it before you request the first page: the age of the list is counted from this
    /// call.
    #[must_use]
    pub fn new() -> Self {
        Self {
            items: Vec::new(),
            pages: 0,
            more: true,
            announced: None,
            began: Instant::now(),
        }
    }

    /// Adds a page. `more` is `true` if the cloud reports that another page follows.
    pub fn add_page(&mut self, items: Vec<T>, more: bool) -> &mut Self {
        self.items.extend(items);
        self.pages += 1;
        self.more = more;
        self
    }

    /// Sets the number of items that the cloud announces, which is checked at the end.
    pub fn set_announced_total(&mut self, total: usize) -> &mut Self {
        self.announced = Some(total);
        self
    }

    /// Returns the number of pages so far.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Ends the reading with a complete list.
    ///
    /// # Errors
    /// An error if no page was read, if another page should have followed, or if fewer items arrived than the cloud
    /// announced: such a partial list proves no absence.
    pub fn finish(self) -> Result<CompleteListing<T>> {
        if self.pages == 0 || self.more {
            return Err(Error::other(format!(
                "the cloud's list is incomplete after {}",
                counted(self.pages, "page")
            )));
        }
        if let Some(total) = self.announced.filter(|total| *total > self.items.len()) {
            return Err(Error::other(format!(
                "the cloud announced {} but listed {}; the list is not used",
                counted(total, "item"),
                self.items.len()
            )));
        }
        Ok(CompleteListing {
            items: self.items,
            pages: self.pages,
            began: self.began,
        })
    }
}

/// A list that was read from its first page to its last.
///
/// ```
/// use cloud_provider::Listing;
///
/// let mut listing = Listing::new();
/// listing.add_page(vec!["acme://1", "acme://2"], false);
/// let all = listing.finish()?;
/// assert_eq!((all.items().len(), all.pages()), (2, 1));
/// assert!(all.prove_absence("acme://9")?.reason().contains("2 instances"));
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompleteListing<T> {
    items: Vec<T>,
    pages: usize,
    began: Instant,
}

impl<T> CompleteListing<T> {
    /// Returns the items of the list.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the items of the list by value.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns a complete list of the elements inside each item, such as the machines of each reservation, with the age
    /// of this list.
    #[must_use]
    pub fn flat_map<U, I: IntoIterator<Item = U>>(
        self,
        inner: impl Fn(T) -> I,
    ) -> CompleteListing<U> {
        let items = self.items.into_iter().flat_map(inner).collect();
        CompleteListing {
            items,
            pages: self.pages,
            began: self.began,
        }
    }

    /// Returns the number of requests for the list.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the time at which the first page was requested; the list is at most this old.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns the proof that an item does not exist. Call it only after you have searched the list for the item: the
    /// method does not search. `what` names the item in the reason.
    ///
    /// # Errors
    /// An error if the list is empty: a wrong project, account or region gives an empty list, too, so it proves nothing
    /// (D-2).
    pub fn prove_absence(&self, what: &str) -> Result<Gone> {
        if self.items.is_empty() {
            return Err(Error::other(
                "the cloud lists no instance at all, which proves nothing; check project, account, region and credential",
            ));
        }
        Ok(Gone {
            reason: format!(
                "{what:?} is not among the {} that the cloud lists",
                counted(self.items.len(), "instance")
            )
            .into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_that_ends_early_proves_no_absence() {
        let mut listing = Listing::new();
        assert!(listing.clone().finish().is_err(), "no page at all");
        listing.add_page(vec![1, 2], true);
        assert!(listing.finish().is_err(), "more was announced");
    }

    #[test]
    fn list_with_a_missing_page_proves_no_absence() {
        let mut listing = Listing::new();
        listing
            .add_page(vec![1, 2], true)
            .add_page(vec![5], false)
            .set_announced_total(5);
        assert_eq!(
            listing.finish().unwrap_err().to_string(),
            "the cloud announced 5 items but listed 3; the list is not used"
        );
    }

    #[test]
    fn empty_list_proves_no_absence() {
        let mut listing = Listing::<u8>::new();
        listing.add_page(vec![], false).set_announced_total(0);
        assert!(listing.finish().unwrap().prove_absence("x").is_err());
    }

    #[test]
    fn complete_list_proves_the_absence_of_an_item() {
        let mut listing = Listing::new();
        listing
            .add_page(vec![1, 2], true)
            .add_page(vec![3], false)
            .set_announced_total(3);
        let gone = listing
            .finish()
            .unwrap()
            .prove_absence("acme://9")
            .unwrap()
            .with_hint("closest: \"acme://3\"");
        assert_eq!(
            gone.reason(),
            "\"acme://9\" is not among the 3 instances that the cloud lists; closest: \"acme://3\""
        );
    }
}
