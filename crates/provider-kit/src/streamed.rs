//! Long lists in an answer, deserialized item by item.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The maximum number of items of a list in one answer. Small items take many times as much memory as their JSON.
pub const MOST_ITEMS: usize = 100_000;

/// Collects a list into `C` while it is deserialized, so that the items never exist as a list of their own in memory.
///
/// ```
/// use std::collections::BTreeSet;
///
/// let mut json = serde_json::Deserializer::from_str(r#"["b", "a", "b"]"#);
/// let names: BTreeSet<String> = provider_kit::streamed::collect::<_, String, _>(&mut json).unwrap();
/// assert_eq!(names.len(), 2);
/// ```
///
/// # Errors
/// An error for a value that is not such a list, or has more than [`MOST_ITEMS`].
pub fn collect<'de, D, T, C>(from: D) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    C: FromIterator<T>,
{
    struct AsTheyCome<T, C>(PhantomData<(T, C)>);

    impl<'de, T: Deserialize<'de>, C: FromIterator<T>> Visitor<'de> for AsTheyCome<T, C> {
        type Value = C;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<C, A::Error> {
            let mut count = 0;
            let items = std::iter::from_fn(|| {
                let item = list.next_element().transpose();
                count += usize::from(item.is_some());
                if count > MOST_ITEMS {
                    Some(Err(too_many()))
                } else {
                    item
                }
            });
            items.collect()
        }
    }

    from.deserialize_seq(AsTheyCome(PhantomData))
}

/// Returns the error for a list of more than [`MOST_ITEMS`].
pub(crate) fn too_many<E: Error>() -> E {
    E::custom(format_args!(
        "a list of more than {MOST_ITEMS} items, the limit of one answer"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_collected_up_to_its_limit() {
        for (count, is_read) in [(MOST_ITEMS, true), (MOST_ITEMS + 1, false)] {
            let text = format!("[{}0]", "0,".repeat(count - 1));
            let mut json = serde_json::Deserializer::from_str(&text);
            let read = collect::<_, u8, Vec<u8>>(&mut json);
            assert_eq!(read.as_ref().map(Vec::len).ok(), is_read.then_some(count));
            assert!(
                is_read
                    || read
                        .unwrap_err()
                        .to_string()
                        .contains("more than 100000 items")
            );
        }
    }
}
