//! Long lists in an answer, read item by item.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Collects a list as it is read, for a `Deserialize` of what is made of it: its items never exist all at once.
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
/// Whatever is no such list.
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
            std::iter::from_fn(|| list.next_element().transpose()).collect()
        }
    }

    from.deserialize_seq(AsTheyCome(PhantomData))
}
