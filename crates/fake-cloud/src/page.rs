//! Pages of lists, with what can be wrong with them.

use crate::fault::{Effects, FaultKind};

/// A page of a list, as the faults leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Its number, from 1.
    pub number: usize,
    /// The number of the last page.
    pub last: usize,
    /// How many items all pages have together.
    pub total: usize,
    /// Which page it says comes next.
    pub next: Next,
}

/// The page after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// None: it is the last one.
    Nothing,
    /// The one after it.
    Following,
    /// Itself, for ever.
    Itself,
}

impl<T> Page<T> {
    /// The page with this number, from 1, of so many items each: for APIs that number their pages.
    pub fn numbered(items: impl IntoIterator<Item = T>, number: usize, size: usize, effects: &Effects) -> Self {
        // All pages from a missing one on are those after it.
        let is_shifted = effects.missing_page().is_some_and(|missing| number >= missing);
        Self::cut(items, number, (number - 1 + usize::from(is_shifted)) * size, size, effects)
    }

    /// The page that begins at this item, from 0, of so many items each: for APIs that go on after the last item that they
    /// showed, or at an offset.
    pub fn starting(items: impl IntoIterator<Item = T>, start: usize, size: usize, effects: &Effects) -> Self {
        let number = start / size + 1;
        // Who goes on after what is shown instead of a missing page goes on at the right place.
        let skipped = if effects.missing_page() == Some(number) { size } else { 0 };
        let mut page = Self::cut(items, number, start + skipped, size, effects);
        let is_end = start + skipped + page.items.len() >= page.total;
        if page.next != Next::Itself && !effects.has(&FaultKind::EmptyPages) {
            page.next = if is_end || page.is_early_end(effects) { Next::Nothing } else { Next::Following };
        }
        page
    }

    /// For APIs that do not look further: a full page says that another one follows, if only an empty one.
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

    fn cut(items: impl IntoIterator<Item = T>, number: usize, start: usize, size: usize, effects: &Effects) -> Self {
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
        Self { items: items.into_iter().skip(start).take(size).collect(), number, last, total, next }
    }
}
