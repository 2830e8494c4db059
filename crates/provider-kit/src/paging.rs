//! Paged lists, read to their end or reported as partial (INV-1): in a common form by [`Transport::list`], in any other
//! form by [`read_pages`].
//!
//! [`Transport::list`]: crate::transport::Transport::list

mod form;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};

use cloud_provider::{CompleteListing, Error, Listing, Result};

pub use form::Paging;

/// The number of pages after which a list counts as endless, even if it announces a larger total.
const MOST_PAGES: usize = 2_000;
/// The number of pages beyond the announced total that are accepted, because the list may grow while it is read.
const SPARE_PAGES: usize = 2;
/// The number of items after which a list counts as endless.
const MOST_ITEMS: usize = 200_000;
/// Number of pages from which on a list needs [`FEWEST_ITEMS`] items a page.
const THIN_PAGES: usize = 100;
/// Number of items on each page of a long list, on average. Clouds have 10 to 1,000 items on a page.
const FEWEST_ITEMS: usize = 5;

/// A page of a list, as a cloud answers it.
#[derive(Clone, Debug)]
pub struct Page<T, P> {
    /// Items on the page.
    pub items: Vec<T>,
    /// Position of the next page; `None` after the last page.
    pub next: Option<P>,
    /// Number of items on all pages together, as the cloud announces it.
    pub total: Option<usize>,
}

/// The position of a page: a number (`u32`) or a cursor (`String`).
pub trait Position: Clone + Debug + Send {
    /// Returns `true` if this can be the position right after `previous`.
    fn follows(&self, previous: &Self) -> bool;
}

impl Position for u32 {
    fn follows(&self, previous: &Self) -> bool {
        previous.checked_add(1) == Some(*self)
    }
}

impl Position for String {
    fn follows(&self, previous: &Self) -> bool {
        self != previous
    }
}

/// The result of reading a list whose every page was answered.
#[derive(Clone, Debug)]
pub enum ListResult<T> {
    /// A complete list, which proves both presence and absence.
    Complete {
        /// The list, with the proof that it is complete.
        listing: CompleteListing<T>,
        /// Number of requests for the list.
        pages: usize,
    },
    /// A partial list: a page is missing, or the list changed while it was read. An item that is not in it may still
    /// exist.
    Partial {
        /// The items that were read.
        items: Vec<T>,
        /// Number of requests for the list.
        pages: usize,
        /// The reason why the list is partial.
        reason: Error,
    },
}

impl<T> ListResult<T> {
    /// Returns a complete reading, where a cloud answers without pages: single objects, or a list in one answer.
    #[must_use]
    pub fn of(items: Vec<T>) -> Self {
        let mut listing = Listing::new();
        listing.add_page(items, false);
        match listing.finish() {
            Ok(listing) => Self::Complete { listing, pages: 1 },
            Err(reason) => Self::Partial {
                items: Vec::new(),
                pages: 1,
                reason,
            },
        }
    }

    /// Keeps the items for which `keep` returns `true`; a partial list stays partial.
    #[must_use]
    pub fn filter(self, keep: impl Fn(&T) -> bool) -> Self {
        self.flat_map(|item| Some(item).filter(&keep))
    }

    /// Returns the elements inside each item, such as the machines of each reservation; a partial list stays partial.
    #[must_use]
    pub fn flat_map<U, I: IntoIterator<Item = U>>(self, inner: impl Fn(T) -> I) -> ListResult<U> {
        match self {
            Self::Complete { listing, pages } => ListResult::Complete {
                listing: listing.flat_map(inner),
                pages,
            },
            Self::Partial {
                items,
                pages,
                reason,
            } => ListResult::Partial {
                items: items.into_iter().flat_map(inner).collect(),
                pages,
                reason,
            },
        }
    }

    /// Returns the items that were read.
    #[must_use]
    pub fn items(&self) -> &[T] {
        match self {
            Self::Complete { listing, .. } => listing.items(),
            Self::Partial { items, .. } => items,
        }
    }

    /// Returns the items that were read, by value.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        match self {
            Self::Complete { listing, .. } => listing.into_items(),
            Self::Partial { items, .. } => items,
        }
    }

    /// Returns the number of requests for the list.
    #[must_use]
    pub fn pages(&self) -> usize {
        match self {
            Self::Complete { pages, .. } | Self::Partial { pages, .. } => *pages,
        }
    }

    /// Returns the list, if it is complete.
    ///
    /// # Errors
    /// The reason why the list is partial.
    pub fn complete(self) -> Result<CompleteListing<T>> {
        match self {
            Self::Complete { listing, .. } => Ok(listing),
            Self::Partial { reason, .. } => Err(reason),
        }
    }
}

/// The properties of a cloud's lists.
#[derive(Clone, Copy, Debug)]
pub struct ListProperties<'a> {
    /// Name of the items, for messages: `machines`.
    pub what: &'a str,
    /// If set, every page announces the total, and a page without it makes the list partial.
    pub totals: bool,
}

/// Reads all pages of a list, from `first` on.
///
/// ```
/// use provider_kit::paging::{read_pages, Page, ListResult, ListProperties};
///
/// # async fn example() -> cloud_provider::Result<()> {
/// let rules = ListProperties { what: "machines", totals: true };
/// let reading = read_pages(rules, 1, |id: &u32| *id, async |page: u32| {
///     Ok(Page { items: vec![page * 10, page * 10 + 1], next: (page < 3).then_some(page + 1), total: Some(6) })
/// }).await?;
/// assert_eq!(reading.complete()?.items().len(), 6);
/// # Ok(()) }
/// ```
///
/// # Errors
/// The error of `fetch` for the first page that failed.
pub async fn read_pages<T, P, K, F>(
    rules: ListProperties<'_>,
    first: P,
    key: impl Fn(&T) -> K,
    mut fetch: impl FnMut(P) -> F,
) -> Result<ListResult<T>>
where
    P: Position,
    K: std::hash::Hash,
    F: Future<Output = Result<Page<T, P>>>,
{
    let listing = Listing::new();
    let mut items = Vec::new();
    let mut progress = Progress::new(rules);
    let mut position = Some(first);
    while let Some(here) = position {
        let Page {
            items: page,
            next,
            total,
        } = fetch(here.clone()).await?;
        let offered = page.len();
        let before = items.len();
        items.extend(page.into_iter().filter(|item| progress.is_new(key(item))));
        let added = items.len() - before;
        let step = next.as_ref().map(|next| Step {
            here: &here,
            next,
            follows: next.follows(&here),
        });
        let goes_on = progress.add(offered, added, total, step.as_ref());
        position = next.filter(|_| goes_on);
    }
    Ok(progress.finish(listing, items))
}

/// A step from a page to the next one.
struct Step<'a> {
    here: &'a dyn Debug,
    next: &'a dyn Debug,
    /// If set, `next` can be the position right after `here`.
    follows: bool,
}

/// Counts of the pages so far, and the first reason why the list is partial. Knows nothing of the items' type, so that
/// its code exists once in the program.
struct Progress<'a> {
    rules: ListProperties<'a>,
    pages: usize,
    items: usize,
    seen: HashSet<u64>,
    hasher: RandomState,
    total: Option<usize>,
    /// Number of items on the largest page so far.
    size: usize,
    reason: Option<String>,
}

impl<'a> Progress<'a> {
    fn new(rules: ListProperties<'a>) -> Self {
        let seen = HashSet::new();
        let hasher = RandomState::new();
        Self {
            rules,
            pages: 0,
            items: 0,
            seen,
            hasher,
            total: None,
            size: 0,
            reason: None,
        }
    }

    /// Returns `true` if no item before had this key.
    fn is_new(&mut self, key: impl Hash) -> bool {
        self.seen.insert(self.hasher.hash_one(key))
    }

    fn mark_partial(&mut self, text: String) {
        self.reason.get_or_insert(text);
    }

    /// Adds a page on which `added` of the `offered` items are new. Returns `true` if the next page is to be read.
    fn add(
        &mut self,
        offered: usize,
        added: usize,
        total: Option<usize>,
        step: Option<&Step<'_>>,
    ) -> bool {
        self.pages += 1;
        self.items += added;
        let number = self.pages;
        self.check_total(number, total);
        self.size = self.size.max(offered);
        if added < offered {
            let twice = offered - added;
            self.mark_partial(format!(
                "{twice} of page {number} had been listed before; the list changed meanwhile"
            ));
        }
        let Some(Step {
            here,
            next,
            follows,
        }) = step
        else {
            return false;
        };
        if !follows {
            self.mark_partial(format!("page {here:?} names {next:?} as the next page"));
        }
        // Pages without new items may go on forever. Items after this point may exist all the same.
        if offered == 0 {
            self.mark_partial(format!(
                "page {number} is empty, and names {next:?} as the next page"
            ));
            return false;
        }
        // A list of many pages with few items each is no list that a cloud would send.
        let is_thin = number >= THIN_PAGES && self.items < number * FEWEST_ITEMS;
        if added == 0 || is_thin || number >= self.most_pages() || self.items >= MOST_ITEMS {
            let items = self.items;
            self.mark_partial(format!(
                "the list does not end after page {number}, with {items} items"
            ));
            return false;
        }
        true
    }

    /// Returns the number of pages that the announced total needs, plus a few more.
    fn most_pages(&self) -> usize {
        let needed = self
            .total
            .map(|total| total.div_ceil(self.size.max(1)).saturating_add(SPARE_PAGES));
        needed.map_or(MOST_PAGES, |needed| needed.min(MOST_PAGES))
    }

    fn check_total(&mut self, number: usize, total: Option<usize>) {
        match (self.total, total) {
            (_, None) if self.rules.totals => {
                self.mark_partial(format!("page {number} does not announce the total"));
            }
            (Some(before), Some(now)) if before != now => {
                self.mark_partial(format!(
                    "the announced total went from {before} to {now} while the list was read"
                ));
            }
            _ => {}
        }
        self.total = total.or(self.total);
    }

    /// Returns the items, in a `listing` that was begun before the first page was read.
    fn finish<T>(mut self, mut listing: Listing<T>, mut items: Vec<T>) -> ListResult<T> {
        items.shrink_to_fit();
        let pages = self.pages;
        if let Some(reason) = self.reason() {
            return ListResult::Partial {
                items,
                pages,
                reason,
            };
        }
        listing.add_page(items, false);
        match listing.finish() {
            Ok(listing) => ListResult::Complete { listing, pages },
            Err(reason) => ListResult::Partial {
                items: Vec::new(),
                pages,
                reason,
            },
        }
    }

    /// Returns the reason why the list is partial, if it is.
    fn reason(&mut self) -> Option<Error> {
        if let Some(total) = self.total.filter(|total| *total != self.items) {
            self.mark_partial(format!("{total} were announced and {} listed", self.items));
        }
        let reason = self.reason.take()?;
        Some(Error::other(format!(
            "the cloud's list of {} is partial: {reason}",
            self.rules.what
        )))
    }
}

#[cfg(test)]
mod tests;
