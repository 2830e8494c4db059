//! Tags of cloud objects as settings of resources, for clouds that change tags one by one.

use std::collections::BTreeMap;

use super::{Attributes, Difference, OwnerTags, ResourceGraph};
use crate::annotations::{Annotation, Annotations};

/// The prefix of a setting that is a tag.
const TAG: &str = "tag ";

impl Attributes {
    /// Adds one setting for each tag, called `tag <key>`.
    ///
    /// ```
    /// use provider_kit::load_balancers::Attributes;
    ///
    /// let tags = [("team".to_owned(), "web".to_owned())].into();
    /// let settings = Attributes::default().tagged(&tags);
    /// assert_eq!((settings.tag("team"), settings.tags()), (Some("web"), tags));
    /// ```
    #[must_use]
    pub fn tagged(self, tags: &BTreeMap<String, String>) -> Self {
        tags.iter().fold(self, |all, (key, value)| {
            all.set(format!("{TAG}{key}"), value)
        })
    }

    /// Returns the settings that are tags, by key.
    #[must_use]
    pub fn tags(&self) -> BTreeMap<String, String> {
        self.iter()
            .filter_map(|(key, value)| Some((tag_key(key)?.to_owned(), value.as_str()?.to_owned())))
            .collect()
    }

    /// Returns the value of a tag.
    #[must_use]
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.text(&format!("{TAG}{key}"))
    }
}

/// Returns the key of the tag that a setting is; `None` if it is no tag.
#[must_use]
pub fn tag_key(setting: &str) -> Option<&str> {
    setting.strip_prefix(TAG)
}

/// Returns a tag as people write it: `KEY=VALUE`, or `KEY` if it has no value.
#[must_use]
pub fn tag_text(key: &str, value: &str) -> String {
    if value.is_empty() {
        key.to_owned()
    } else {
        format!("{key}={value}")
    }
}

/// Returns the tags among the changes, by key; those that go have no value. Owner tags are never among them: they are
/// written when a load balancer is created or adopted, and by no setting.
#[must_use]
pub fn changed_tags(changes: &[Difference]) -> BTreeMap<String, Option<String>> {
    let is_owner = |key: &str| [OwnerTags::CLUSTER, OwnerTags::SERVICE].contains(&key);
    let tag = |difference: &Difference| {
        let key = tag_key(&difference.key).filter(|key| !is_owner(key))?;
        Some((key.to_owned(), difference.to.as_str().map(str::to_owned)))
    };
    changes.iter().filter_map(tag).collect()
}

/// The keys of tags by which a cloud's load balancers are known, beside those of this program. An author of Services who
/// could write them would own the load balancers of others, or leave his own without an owner.
///
/// ```
/// use provider_kit::load_balancers::ReservedTags;
///
/// const RESERVED: ReservedTags = ReservedTags { prefixes: &["kubernetes.io/cluster/"], keys: &["kubernetes.io/service-name"] };
///
/// assert!(RESERVED.contains("ccm-rs/service") && RESERVED.contains("kubernetes.io/cluster/blue"));
/// assert!(!RESERVED.contains("team"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReservedTags {
    /// Beginnings of reserved keys.
    pub prefixes: &'static [&'static str],
    /// Whole keys that are reserved.
    pub keys: &'static [&'static str],
}

/// Beginnings of the keys of this program, in the forms of all clouds.
const OWN_PREFIXES: [&str; 4] = ["ccm-rs/", "ccm-rs-", "ccmrs-cluster:", "ccmrs-service:"];

impl ReservedTags {
    /// Returns `true` if no setting may have this key. Case is ignored, because some clouds ignore it.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        let key = key.trim().to_ascii_lowercase();
        let begins = |prefix: &&str| key.starts_with(&prefix.to_ascii_lowercase());
        let is_prefixed = OWN_PREFIXES.iter().chain(self.prefixes).any(begins);
        is_prefixed
            || self
                .keys
                .iter()
                .any(|reserved| reserved.eq_ignore_ascii_case(&key))
    }

    /// Returns `true` if the annotation may set a tag with this key; otherwise adds the mistake.
    pub fn allows<T>(
        &self,
        key: &str,
        annotation: &Annotation<T>,
        annotations: &mut Annotations<'_>,
    ) -> bool {
        let is_reserved = self.contains(key);
        if is_reserved {
            annotations.mistake(format!(
                "annotation {}: {key:?} is reserved, because it names the owner of a load balancer; choose another key",
                annotation.key()
            ));
        }
        !is_reserved
    }
}

/// The keys of the tags that a Service asks for, in a tag beside them. So a tag that is taken out of the annotation is
/// removed, and a tag that somebody else has written stays.
///
/// ```
/// use provider_kit::load_balancers::{Attributes, ResourceKey, TagRecord, ResourceGraph, changed_tags};
///
/// const RECORD: TagRecord = TagRecord { key: "ccm-rs/additional-tags", separator: "=", longest: 256 };
///
/// let tags = |tags: &[(&str, &str)]| tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
/// let seen = RECORD.among(tags(&[("team", "web"), ("cost", "7")]));
/// assert_eq!(seen["ccm-rs/additional-tags"], "cost=team");
/// let seen = ResourceGraph::default().balancer(Attributes::default().tagged(&seen).set("tag theirs", "x"));
/// let mut wanted = ResourceGraph::default().balancer(Attributes::default().tagged(&RECORD.among(tags(&[("team", "mail")]))));
/// RECORD.remove_others(&mut wanted, &seen);
/// let changes = wanted.balancer_attributes().unwrap().differences(seen.balancer_attributes().unwrap());
/// let changes = changed_tags(&changes);
/// assert_eq!((changes["team"].as_deref(), &changes["cost"], changes.get("theirs")), (Some("mail"), &None, None));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TagRecord {
    /// Key of that tag.
    pub key: &'static str,
    /// Separator of keys, which no key contains.
    pub separator: &'static str,
    /// The longest value of a tag, in bytes. Keys beyond it are not recorded, and such tags stay.
    pub longest: usize,
}

impl TagRecord {
    /// Adds the record to the tags of the annotation, if there are any.
    #[must_use]
    pub fn among(&self, mut tags: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut keys = String::new();
        for key in tags.keys().filter(|key| !key.contains(self.separator)) {
            let separator = if keys.is_empty() { "" } else { self.separator };
            if keys.len() + separator.len() + key.len() <= self.longest {
                keys = format!("{keys}{separator}{key}");
            }
        }
        if !keys.is_empty() {
            tags.insert(self.key.to_owned(), keys);
        }
        tags
    }

    /// Wants recorded tags absent that the desired state does not have.
    pub fn remove_others(&self, desired: &mut ResourceGraph, seen: &ResourceGraph) {
        for (resource, there) in &seen.resources {
            let (Some(keys), Some(wanted)) = (there.tag(self.key), desired.resources.get(resource))
            else {
                continue;
            };
            let gone = keys
                .split(self.separator)
                .chain([self.key])
                .filter(|key| wanted.tag(key).is_none());
            let wanted = gone.fold(wanted.clone(), |all, key| {
                all.set(format!("{TAG}{key}"), ())
            });
            desired.resources.insert(resource.clone(), wanted);
        }
    }
}
