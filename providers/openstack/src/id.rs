//! `spec.providerID`: `openstack:///<server>`, or `openstack://<region>/<server>` in clusters of several regions.

pub use provider_kit::provider_id::IdError;

const SCHEME: &str = "openstack://";
const ACCEPTED: &str = "openstack:///<server id> and openstack://<region>/<server id>";

/// A server and the region that a provider id names.
///
/// ```
/// use provider_openstack::id::ServerId;
///
/// let id = ServerId::read("openstack://RegionOne/7b9cf879")?;
/// assert_eq!((id.region, id.server), ("RegionOne", "7b9cf879"));
/// assert_eq!(ServerId::read("/7b9cf879")?.to_string(), "openstack:///7b9cf879");
/// assert!(ServerId::read("openstack://7b9cf879").is_err());
/// # Ok::<(), provider_openstack::id::IdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerId<'a> {
    /// Region; empty if the provider ID has none.
    pub region: &'a str,
    /// ID of the server in Nova.
    pub server: &'a str,
}

impl<'a> ServerId<'a> {
    /// Reads a provider ID. One without a scheme is read as if it began with `openstack://`: such IDs were written once.
    ///
    /// # Errors
    /// See [`IdError`]; the error never means that a machine no longer exists.
    pub fn read(provider_id: &'a str) -> Result<Self, IdError> {
        let unread = |is_ours: bool| {
            let id = provider_id.to_owned();
            let accepted = ACCEPTED;
            if is_ours {
                IdError::Malformed { id, accepted }
            } else {
                IdError::UnknownPrefix { id, accepted }
            }
        };
        let rest = match provider_id.strip_prefix(SCHEME) {
            Some(rest) => rest,
            None if provider_id.contains("://") || provider_id.is_empty() => {
                return Err(unread(false));
            }
            None => provider_id,
        };
        let (region, server) = rest.split_once('/').ok_or_else(|| unread(true))?;
        // `.` and `..` would change the URL path of a request.
        let is_id = !server.is_empty() && !server.contains('/') && !matches!(server, "." | "..");
        is_id
            .then_some(Self { region, server })
            .ok_or_else(|| unread(true))
    }
}

/// Formats the provider ID as it is written to Nodes.
impl std::fmt::Display for ServerId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.region, self.server)
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::Error;

    use super::*;

    #[test]
    fn every_form_that_was_ever_written_is_read() {
        for (text, region) in [
            ("openstack:///U", ""),
            ("openstack://RegionOne/U", "RegionOne"),
            ("/U", ""),
        ] {
            assert_eq!(
                ServerId::read(text),
                Ok(ServerId {
                    region,
                    server: "U"
                }),
                "{text}"
            );
        }
        assert_eq!(
            ServerId {
                region: "",
                server: "U"
            }
            .to_string(),
            "openstack:///U"
        );
        assert_eq!(
            ServerId {
                region: "RegionOne",
                server: "U"
            }
            .to_string(),
            "openstack://RegionOne/U"
        );
    }

    #[test]
    fn what_is_no_provider_id_of_ours_is_invalid_and_says_what_is_accepted() {
        for text in [
            "openstack://U",
            "U",
            "other:///U",
            "",
            "openstack:///",
            "openstack://R/U/x",
            "openstack:///..",
        ] {
            let error = Error::from(ServerId::read(text).unwrap_err());
            assert!(
                error.is_invalid() && error.to_string().contains(ACCEPTED),
                "{error}"
            );
        }
        assert!(matches!(
            ServerId::read("other:///U"),
            Err(IdError::UnknownPrefix { .. })
        ));
        assert!(matches!(
            ServerId::read("openstack://U"),
            Err(IdError::Malformed { .. })
        ));
    }
}
