//! Owner tags for clouds whose objects have tags without values, or only a description.

use std::fmt::Write;

use crate::load_balancers::OwnerTags;
use crate::signing::sha256_hex;

const CLUSTER: &str = "ccmrs-cluster:";
const SERVICE: &str = "ccmrs-service:";
/// The tag of an object that was adopted. It is written together with the owner tags, and removed together with them, so
/// that a process that is killed in between cannot mistake the object for one that was created for its Service.
pub const ADOPTED: &str = "ccmrs-adopted";
/// The beginning of the hash of a value that was too long.
const HASH: &str = "_h";
/// The number of hexadecimal digits of a hash.
const DIGITS: usize = 32;

/// Writes the owner of an object as tags of the form `key:value`, and reads it from them.
///
/// Tags consist of lower-case letters, digits, `:`, `-` and `_`, which every cloud accepts. Any other byte of a
/// cluster's ID or of a Service's UID becomes `_` and its two hexadecimal digits. A value that is too long is replaced
/// by a hash; [`stored`](Self::stored) returns the form to compare with.
///
/// ```
/// use provider_kit::load_balancers::OwnerTags;
/// use provider_kit::text_tags::TextTags;
///
/// let tags = TextTags::of_length(255);
/// let owner = OwnerTags { cluster: Some("Prod".into()), service: Some("6f9e".into()) };
/// let mut all = tags.among(&owner, vec!["team:web".to_owned()]);
/// assert_eq!(all, ["team:web", "ccmrs-cluster:_50rod", "ccmrs-service:6f9e"]);
/// assert_eq!((tags.take_from(&mut all), all), (owner.clone(), vec!["team:web".to_owned()]));
///
/// let description = tags.describe(&owner, "Made for web.");
/// assert_eq!(tags.described(&description), (owner, "Made for web.".to_owned()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TextTags {
    longest: usize,
}

impl TextTags {
    /// Returns tags of at most `longest` characters; 50 at least, which a UID needs.
    #[must_use]
    pub const fn of_length(longest: usize) -> Self {
        Self {
            longest: if longest < 50 { 50 } else { longest },
        }
    }

    /// Returns the owner tags of an object, behind its other tags.
    #[must_use]
    pub fn among(self, owner: &OwnerTags, mut others: Vec<String>) -> Vec<String> {
        others.extend(self.tags(owner));
        others
    }

    /// Removes the owner tags from an object's tags and returns them; the other tags stay. If two tags have the same
    /// key, the owner is unknown.
    #[must_use]
    pub fn take_from(self, tags: &mut Vec<String>) -> OwnerTags {
        let mut owner = OwnerTags::default();
        tags.retain(|tag| {
            let (part, value) = match (tag.strip_prefix(CLUSTER), tag.strip_prefix(SERVICE)) {
                (Some(value), _) => (&mut owner.cluster, decoded(value)),
                (None, Some(value)) => (&mut owner.service, decoded(value)),
                (None, None) => return true,
            };
            let Some(value) = value else { return true };
            // An ID contains no blank.
            *part = Some(
                part.take()
                    .filter(|other| *other != value)
                    .map_or(value.clone(), |other| other + " " + &value),
            );
            false
        });
        owner
    }

    /// Returns a description whose first line is the owner tags. A cloud may cut the end of a long one.
    #[must_use]
    pub fn describe(self, owner: &OwnerTags, text: &str) -> String {
        let tags = self.tags(owner).join(" ");
        if tags.is_empty() || text.is_empty() {
            tags + text
        } else {
            tags + "\n" + text
        }
    }

    /// Reads the owner from a description, and returns it with the rest of the text.
    #[must_use]
    pub fn described(self, description: &str) -> (OwnerTags, String) {
        let (line, rest) = description.split_once('\n').unwrap_or((description, ""));
        let mut tags = line.split(' ').map(str::to_owned).collect();
        match self.take_from(&mut tags) {
            owner if owner != OwnerTags::default() && tags.is_empty() => (owner, rest.to_owned()),
            // The first line belongs to another program.
            _ => (OwnerTags::default(), description.to_owned()),
        }
    }

    /// Returns the form in which a cluster's ID is read back: the ID, or a hash if it is too long for a tag.
    #[must_use]
    pub fn stored(self, id: &str) -> String {
        let encoded = self.encoded(id, CLUSTER);
        decoded(&encoded).unwrap_or(encoded)
    }

    fn tags(self, owner: &OwnerTags) -> Vec<String> {
        let tags = [(CLUSTER, &owner.cluster), (SERVICE, &owner.service)];
        tags.into_iter()
            .filter_map(|(key, value)| Some(format!("{key}{}", self.encoded(value.as_ref()?, key))))
            .collect()
    }

    fn encoded(self, value: &str, key: &str) -> String {
        if is_hash(value) {
            return value.to_owned();
        }
        let mut text = String::with_capacity(value.len());
        for byte in value.bytes() {
            if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b':' {
                text.push(char::from(byte));
            } else {
                // Writing to a String cannot fail.
                let _ = write!(text, "_{byte:02x}");
            }
        }
        if key.len() + text.len() <= self.longest {
            return text;
        }
        format!("{HASH}{}", &sha256_hex(value.as_bytes())[..DIGITS])
    }
}

fn is_hash(text: &str) -> bool {
    text.strip_prefix(HASH).is_some_and(|digits| {
        digits.len() == DIGITS
            && digits
                .bytes()
                .all(|byte| b"0123456789abcdef".contains(&byte))
    })
}

/// Returns the value of a tag; `None` if the tag was not written by this module.
fn decoded(text: &str) -> Option<String> {
    if is_hash(text) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        (bytes, rest) = match (first, after.split_at_checked(2)) {
            (b'_', Some((digits, after))) => {
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                (bytes, after)
            }
            (b'_', None) => return None,
            (other, _) => {
                bytes.push(*other);
                (bytes, after)
            }
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner(cluster: &str, service: &str) -> OwnerTags {
        OwnerTags {
            cluster: Some(cluster.to_owned()),
            service: Some(service.to_owned()),
        }
    }

    #[test]
    fn tags_of_uids_fit_fifty_characters_and_are_readable() {
        let uid = "0b1d7b0e-8b0a-4c53-9a56-3f4c6f6f6f6f";
        let tags = TextTags::of_length(0).among(&owner(uid, uid), Vec::new());
        assert_eq!(
            tags,
            [
                format!("ccmrs-cluster:{uid}"),
                format!("ccmrs-service:{uid}")
            ]
        );
        assert!(tags.iter().all(|tag| tag.len() == 50));
    }

    #[test]
    fn foreign_tags_and_two_owners_name_no_owner() {
        let tags = TextTags::of_length(255);
        for text in [
            "ccmrs-cluster:_4",
            "ccmrs-cluster:_zz",
            "ccmrs-cluster",
            "k8s:ccmrs-cluster:a",
        ] {
            let mut all = vec![text.to_owned()];
            assert_eq!(
                (tags.take_from(&mut all), all.len()),
                (OwnerTags::default(), 1),
                "{text}"
            );
            assert_eq!(
                tags.described(text),
                (OwnerTags::default(), text.to_owned())
            );
        }
        let mut two = ["a", "b", "b"]
            .map(|id| format!("ccmrs-service:{id}"))
            .to_vec();
        assert_eq!(tags.take_from(&mut two).service.as_deref(), Some("a b b"));
        assert_eq!(
            tags.described("ccmrs-service:a and more").0,
            OwnerTags::default()
        );
    }

    proptest! {
        #[test]
        fn every_owner_is_read_back_from_tags_and_descriptions(
            cluster in "\\PC{0,40}|[a-zA-Z0-9._/ -]{0,300}",
            service in prop::option::of("[0-9a-f-]{36}"),
            other in "[a-z:]{1,9}",
            text in "[^\u{0}]{0,40}",
            longest in 50usize..300,
        ) {
            let tags = TextTags::of_length(longest);
            let owner = OwnerTags { cluster: Some(cluster.clone()), service };
            let mut all = tags.among(&owner, vec![other.clone()]);
            for tag in &all[1..] {
                prop_assert!(tag.len() <= longest, "{}", tag);
                prop_assert!(tag.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":-_".contains(&byte)));
            }
            let read = OwnerTags { cluster: Some(tags.stored(&cluster)), service: owner.service.clone() };
            prop_assert_eq!(tags.take_from(&mut all), read.clone());
            prop_assert_eq!(all, vec![other]);
            prop_assert_eq!(tags.described(&tags.describe(&owner, &text)), (read, text));
            let stored = tags.stored(&cluster);
            prop_assert_eq!(tags.stored(&stored), stored.clone());
            prop_assert!(stored == cluster || 3 * cluster.len() > longest - CLUSTER.len(), "only values that are too long are hashed");
        }

        #[test]
        fn different_ids_are_stored_differently(a in "\\PC{0,120}", b in "\\PC{0,120}") {
            let tags = TextTags::of_length(60);
            prop_assert_eq!(a == b, tags.stored(&a) == tags.stored(&b));
        }
    }
}
