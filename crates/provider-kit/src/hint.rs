//! Suggestions for misspelt names: "did you mean …?"

/// The similarity above which two names count as misspellings of each other.
const ALIKE: f64 = 0.8;

/// Returns the name in `known` that is most similar to `name`, if it is similar enough.
pub(crate) fn closest<'a>(name: &str, known: &'a [impl AsRef<str>]) -> Option<&'a str> {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(known, name);
    // Names of very different lengths are not similar: they cost no comparison, even if one of them is very long.
    let may_be_alike = |known: &&str| {
        let (short, long) = (known.len().min(name.len()), known.len().max(name.len()));
        short * 2 > long
    };
    let best = known.iter().map(AsRef::as_ref).filter(may_be_alike).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.filter(|known| likeness(known) > ALIKE)
}
