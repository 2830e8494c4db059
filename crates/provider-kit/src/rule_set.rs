//! Rules of a firewall, as a set: what to make and what to remove, so that nothing that shall pass is ever kept out.

use std::collections::HashSet;
use std::hash::Hash;

/// What leads from the rules that are there to those that are wanted. Make first, then remove: in between more passes than
/// shall, and never less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChanges<'a, R, I> {
    /// Rules that are not there, each once, in the order in which they are wanted.
    pub make: Vec<&'a R>,
    /// Ids of rules that nobody wants, or that are there twice.
    pub remove: Vec<&'a I>,
}

impl<R, I> RuleChanges<'_, R, I> {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.make.is_empty() && self.remove.is_empty()
    }
}

/// Compares rules. Two are the same if they are equal: write both in one way, such as with protocols in lower case.
///
/// ```
/// use provider_kit::rule_set::rule_changes;
///
/// let wanted = [("tcp", 80), ("tcp", 443)];
/// let actual = [("r1", ("tcp", 80)), ("r2", ("udp", 53)), ("r3", ("tcp", 80))];
/// let changes = rule_changes(&wanted, &actual);
/// assert_eq!(changes.make, [&("tcp", 443)]);
/// assert_eq!(changes.remove, [&"r2", &"r3"]);
/// ```
#[must_use]
pub fn rule_changes<'a, R: Eq + Hash, I>(wanted: &'a [R], actual: &'a [(I, R)]) -> RuleChanges<'a, R, I> {
    let mut wants: HashSet<&R> = wanted.iter().collect();
    let remove = actual.iter().filter(|(_, rule)| !wants.remove(rule)).map(|(id, _)| id).collect();
    // What is left of them is not there.
    let make = wanted.iter().filter(|rule| wants.remove(rule)).collect();
    RuleChanges { make, remove }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_made_and_what_nobody_wants_is_removed() {
        type Row<'a> = (&'a [u16], &'a [(u8, u16)], &'a [u16], &'a [u8]);
        let table: [Row<'_>; 6] = [
            (&[], &[], &[], &[]),
            (&[80], &[(1, 80)], &[], &[]),
            (&[81], &[(1, 80)], &[81], &[1]),
            (&[], &[(1, 80), (2, 81)], &[], &[1, 2]),
            (&[80, 80], &[], &[80], &[]),
            (&[80], &[(1, 80), (2, 80)], &[], &[2]),
        ];
        for (wanted, actual, make, remove) in table {
            let changes = rule_changes(wanted, actual);
            assert!(changes.make.iter().copied().eq(make) && changes.remove.iter().copied().eq(remove), "{changes:?}");
            assert_eq!(changes.is_empty(), make.is_empty() && remove.is_empty());
        }
    }
}
