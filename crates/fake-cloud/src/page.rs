//! Pages of lists, with the faults that they may have.

use crate::fault::{Effects, FaultKind};

/// A page of a list, after the faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Items on the page.
    pub items: Vec<T>,
    /// Number of the page, from 1.
    pub number: usize,
    /// Number of the last page.
    pub last: usize,
    /// Number of items on all pages together.
    pub total: usize,
    /// Page that this page names as the next one.
    pub next: Next,
}

/// The page that a page names as the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// No page, as on the last one.
    Nothing,
    /// The page after this one.
    Following,
    /// The page itself, forever.
    Itself,
}

impl<T> Page<T> {
    /// Returns the page with this number, from 1, of `size` items each: for APIs with page numbers.
    pub fn numbered(
        items: impl IntoIterator<Item = T>,
        number: usize,
        size: usize,
        effects: &Effects,
    ) -> Self {
        // From a missing page on, each page is the one after it.
        let is_shifted = effects
            .missing_page()
            .is_some_and(|missing| number >= missing);
        Self::cut(
            items,
            number,
            (number - 1 + usize::from(is_shifted)) * size,
            size,
            effects,
        )
    }

    /// Returns the page that begins at this item, from 0, of `size` items each: for APIs that continue after the last
    /// item, or at an offset.
    pub fn starting(
        items: impl IntoIterator<Item = T>,
        start: usize,
        size: usize,
        effects: &Effects,
    ) -> Self {
        let number = start / size + 1;
        // A client that continues after the items of a missing page continues at the right place.
        let skipped = if effects.missing_page() == Some(number) {
            size
        } else {
            0
        };
        let mut page = Self::cut(items, number, start + skipped, size, effects);
        let is_end = start + skipped + page.items.len() >= page.total;
        if page.next != Next::Itself && !effects.has(&FaultKind::EmptyPages) {
            page.next = if is_end || page.is_early_end(effects) {
                Next::Nothing
            } else {
                Next::Following
            };
        }
        page
    }

    /// Marks a full page as followed by another one, even if that is empty: for APIs that do not look ahead.
    #[must_use]
    pub fn full_is_followed(mut self, size: usize, effects: &Effects) -> Self {
        if self.next == Next::Nothing && self.items.len() == size && !self.is_early_end(effects) {
            self.next = Next::Following;
        }
        self
    }

    fn is_early_end(&self, effects: &Effects) -> bool {
        effects.early_end().is_some_and(|end| self.number >= end)
    }

    fn cut(
        items: impl IntoIterator<Item = T>,
        number: usize,
        start: usize,
        size: usize,
        effects: &Effects,
    ) -> Self {
        let mut items: Vec<T> = items.into_iter().collect();
        let is_without_end = effects.has(&FaultKind::EmptyPages);
        if is_without_end || effects.has(&FaultKind::EmptyList) {
            items.clear();
        }
        let total = items.len();
        let missing = usize::from(effects.missing_page().is_some());
        let mut last = total.div_ceil(size).saturating_sub(missing).max(1);
        last = last.min(effects.early_end().unwrap_or(last));
        let next = match number < last {
            _ if effects.has(&FaultKind::EndlessList) => Next::Itself,
            _ if is_without_end => Next::Following,
            true => Next::Following,
            false => Next::Nothing,
        };
        Self {
            items: items.into_iter().skip(start).take(size).collect(),
            number,
            last,
            total,
            next,
        }
    }
}
