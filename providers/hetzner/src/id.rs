//! `spec.providerID`: which machine of which of Hetzner's two products a Node is.

use std::fmt;
use std::net::Ipv6Addr;

use cloud_provider::Node;
use provider_kit::provider_id::{Forms, number};

pub use provider_kit::provider_id::IdError;

/// The label of a Node that names the product of its machine.
pub(crate) const PROVIDED_BY: &str = "instance.hetzner.cloud/provided-by";

/// The first form is that of a dedicated server in Syself's fork: read, never written. It begins like a cloud server's.
const IDS: Forms<MachineId> = Forms {
    accepted: "hcloud://<server id> and hrobot://<server number>",
    prefixes: &[
        ("hcloud://bm-", |id| number(id).map(MachineId::Robot)),
        ("hcloud://", |id| number(id).map(MachineId::Cloud)),
        ("hrobot://", |id| number(id).map(MachineId::Robot)),
    ],
};

/// A machine. `Display` gives the provider id as it is written.
///
/// ```
/// use provider_hetzner::id::{IdError, MachineId};
///
/// assert_eq!(MachineId::read("hcloud://1234")?, MachineId::Cloud(1234));
/// assert_eq!(MachineId::read("hcloud://bm-321")?.to_string(), "hrobot://321");
/// assert!(matches!(MachineId::read("acme://1"), Err(IdError::UnknownPrefix { .. })));
/// # Ok::<(), IdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineId {
    /// ID of a cloud server.
    Cloud(u64),
    /// Number of a dedicated server.
    Robot(u64),
}

impl MachineId {
    /// Reads a provider id.
    ///
    /// # Errors
    /// See [`IdError`]; the error never means that a machine no longer exists.
    pub fn read(provider_id: &str) -> Result<Self, IdError> {
        IDS.read(provider_id)
    }
}

/// Returns the number in a provider id that [can be read](MachineId::read).
pub(crate) fn digits(provider_id: &str) -> &str {
    &provider_id[provider_id
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .len()..]
}

/// Returns the first address of a server's IPv6 network, which is the server's.
pub(crate) fn first_address(net: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(net.to_bits() | 1)
}

/// Returns `true` if a Node is, or may turn out to be, a machine of Hetzner's (P-15).
pub(crate) fn is_ours(node: &Node) -> bool {
    node.provider_id()
        .is_none_or(|id| !matches!(MachineId::read(id), Err(IdError::UnknownPrefix { .. })))
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cloud(id) => write!(f, "hcloud://{id}"),
            Self::Robot(number) => write!(f, "hrobot://{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::Error;

    use super::*;

    #[test]
    fn every_form_that_was_ever_written_is_read() {
        for (text, id) in [
            ("hcloud://1234", MachineId::Cloud(1234)),
            (
                "hcloud://2251799813685247",
                MachineId::Cloud(2_251_799_813_685_247),
            ),
            ("hrobot://123", MachineId::Robot(123)),
            ("hcloud://bm-123", MachineId::Robot(123)),
        ] {
            assert_eq!(MachineId::read(text), Ok(id));
        }
        assert_eq!(MachineId::Cloud(7).to_string(), "hcloud://7");
        assert_eq!(MachineId::Robot(7).to_string(), "hrobot://7");
    }

    #[test]
    fn what_is_no_number_is_malformed_and_says_what_is_accepted() {
        for text in [
            "hcloud://",
            "hcloud://abc",
            "hcloud://-1",
            "hcloud://+1",
            "hcloud://1/2",
            "hcloud://007",
            "hrobot://",
            "hrobot://x",
            "hcloud://bm-",
            "hcloud://bm-x",
            "hcloud://99999999999999999999",
        ] {
            let err = MachineId::read(text).unwrap_err();
            assert!(
                matches!(&err, IdError::Malformed { id, .. } if id == text),
                "{err:?}"
            );
            let err = Error::from(err);
            assert!(
                err.is_invalid()
                    && err
                        .to_string()
                        .contains("hcloud://<server id> and hrobot://<server number>"),
                "{err}"
            );
        }
    }

    #[test]
    fn another_providers_id_is_told_from_a_malformed_one() {
        for text in ["foo://1", "", "1234", "hcloud:/1", "HCLOUD://1"] {
            assert!(
                matches!(MachineId::read(text), Err(IdError::UnknownPrefix { id, .. }) if id == text)
            );
        }
        assert!(Error::from(MachineId::read("foo://1").unwrap_err()).is_invalid());
    }
}
