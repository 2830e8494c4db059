//! Suggestions for misspelt names: "did you mean …?"

/// The similarity above which two names count as misspellings of each other.
const ALIKE: f64 = 0.8;

/// Returns the name in `known` that is most similar to `name`, if it is similar enough.
///
/// ```
/// let known = ["hcloud", "linode"];
/// assert_eq!(cloud_provider::closest("hclod", &known), Some("hcloud"));
/// assert_eq!(cloud_provider::closest("aws", &known), None);
/// ```
pub fn closest<'a>(name: &str, known: &'a [impl AsRef<str>]) -> Option<&'a str> {
    let alike = known
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|known| Some((likeness(known, name)?, known)));
    alike
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// Returns the similarity of two names, from 0 to 1; `None` if they are not similar enough. A comparison costs the product
/// of the lengths, and anybody may send names, so only the parts are compared that differ.
fn likeness(known: &str, name: &str) -> Option<f64> {
    let common = known
        .bytes()
        .zip(name.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let (Some(known_rest), Some(name_rest)) = (known.get(common..), name.get(common..)) else {
        return None;
    };
    let longest = known.len().max(name.len());
    #[allow(clippy::cast_precision_loss)] // Names are shorter than a million characters.
    let likeness_of = |distance: usize| 1.0 - distance as f64 / longest.max(1) as f64;
    // Each character that one name has more than the other is a difference.
    if likeness_of(known.len().abs_diff(name.len())) <= ALIKE {
        return None;
    }
    Some(likeness_of(strsim::damerau_levenshtein(
        known_rest, name_rest,
    )))
    .filter(|likeness| *likeness > ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn likeness_is_the_normalized_distance_of_the_whole_names(known in "[a-d/]{0,12}", name in "[a-d/]{0,12}") {
            let expected = strsim::normalized_damerau_levenshtein(&known, &name);
            let expected = Some(expected).filter(|likeness| *likeness > ALIKE);
            proptest::prop_assert_eq!(likeness(&known, &name).map(|likeness| (likeness * 1e9).round()), expected.map(|number| (number * 1e9).round()));
        }
    }
}
