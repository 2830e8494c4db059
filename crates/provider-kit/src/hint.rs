//! "Did you mean …?"

/// How alike names must be to be taken for each other.
const ALIKE: f64 = 0.8;

/// The one of `known` that is most like `name`, if it is alike at all.
pub(crate) fn closest<'a>(name: &str, known: &'a [impl AsRef<str>]) -> Option<&'a str> {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(known, name);
    // Names of very different lengths are not alike: they cost no comparison, however long one of them is.
    let may_be_alike = |known: &&str| {
        let (short, long) = (known.len().min(name.len()), known.len().max(name.len()));
        short * 2 > long
    };
    let best = known.iter().map(AsRef::as_ref).filter(may_be_alike).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.filter(|known| likeness(known) > ALIKE)
}
