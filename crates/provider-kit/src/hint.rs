//! "Did you mean …?"

/// How alike names must be to be taken for each other.
const ALIKE: f64 = 0.8;

/// `: did you mean X?`, if one of `known` is like `name`; else nothing.
pub(crate) fn closest(name: &str, known: &[impl AsRef<str>]) -> String {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(known, name);
    let best = known.iter().map(AsRef::as_ref).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.filter(|known| likeness(known) > ALIKE).map_or_else(String::new, |known| format!(": did you mean {known}?"))
}
