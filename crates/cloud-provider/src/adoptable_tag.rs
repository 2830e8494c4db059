//! The tag that permits Services to adopt a load balancer.

use std::fmt;
use std::str::FromStr;

/// A tag that a load balancer must have before a Service adopts it by its ID or its name. Authors of Services choose both,
/// but only administrators of the cloud write tags.
///
/// ```
/// use cloud_provider::AdoptableTag;
///
/// let tag: AdoptableTag = "adoptable=true".parse()?;
/// assert!(tag.is_among(["team=web", "adoptable=true"]) && !tag.is_among(["adoptable=false", "adoptable"]));
/// let any_value: AdoptableTag = "adoptable".parse()?;
/// assert!(any_value.is_among(["adoptable=false"]) && any_value.is_among(["adoptable"]));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptableTag {
    key: String,
    /// Required value; `None` accepts any value, and none.
    value: Option<String>,
}

impl AdoptableTag {
    /// Returns `true` if the tag is one of these, each of the form `KEY` or `KEY=VALUE`.
    pub fn is_among(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
        tags.into_iter().any(|tag| {
            let (key, value) = key_and_value(tag.as_ref());
            key == self.key
                && self
                    .value
                    .as_deref()
                    .is_none_or(|wanted| value == Some(wanted))
        })
    }
}

fn key_and_value(tag: &str) -> (&str, Option<&str>) {
    tag.split_once('=')
        .map_or((tag, None), |(key, value)| (key, Some(value)))
}

impl FromStr for AdoptableTag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = key_and_value(text);
        let is_plain = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte))
        };
        if key.is_empty() || !is_plain(key) || !value.is_none_or(is_plain) {
            return Err(format!(
                "{text:?} is not a tag KEY or KEY=VALUE of letters, digits, -, _, ., / and :, such as ccm-rs-adoptable"
            ));
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        })
    }
}

impl fmt::Display for AdoptableTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_has_a_key_and_perhaps_a_value() {
        for (text, has_blue, has_red, has_key) in [
            ("team", true, true, true),
            ("team=blue", true, false, false),
            ("team=", false, false, false),
            ("other", false, false, false),
        ] {
            let tag: AdoptableTag = text.parse().unwrap();
            let among = |tags| tag.is_among([tags]);
            let found = (among("team=blue"), among("team=red"), among("team"));
            assert_eq!(
                (found, tag.to_string().as_str()),
                ((has_blue, has_red, has_key), text)
            );
        }
    }

    #[test]
    fn text_that_no_cloud_takes_as_a_tag_is_refused() {
        for text in ["", "=blue", "a b", "team=blue,red", "a\n"] {
            let error = text.parse::<AdoptableTag>().unwrap_err();
            assert!(error.contains(&format!("{text:?} is not a tag")), "{error}");
        }
    }
}
