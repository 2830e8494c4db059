//! Zones of volumes: as text, and which of them a new volume is put into (HELP-80 … HELP-90).
//!
//! ```
//! use ccm_tests::zones::{Selection, label_zones, select_zones};
//!
//! let zones = label_zones("eu-1a__eu-1b")?;
//! let selection = Selection { zones_with_nodes: &zones, claim: "data-web-1", ..Selection::default() };
//! assert_eq!(select_zones(&selection, 1)?.len(), 1);
//! # Ok::<(), cloud_provider::Error>(())
//! ```

mod choose;
mod select;

use std::collections::BTreeSet;

use cloud_provider::names::ZONE_DELIMITER;
use cloud_provider::{Error, Result};

pub use choose::{choose_zones, choose_zones_including, hash_and_index};
pub use select::{Selection, select_zone, select_zones, topology_zones};

/// Names of zones, sorted.
pub type Zones = BTreeSet<String>;

/// Zones as a StorageClass lists them: `eu-1a, eu-1b` (HELP-80).
///
/// # Errors
/// *Invalid*, if one of them is empty.
pub fn listed_zones(text: &str) -> Result<Zones> {
    split(text, ",").map_err(|error| {
        Error::invalid(format!(
            "error parsing zones {text}, must be strings separated by commas: {error}"
        ))
    })
}

/// Zones as the label of a volume has them: `eu-1a__eu-1b` (HELP-81).
///
/// # Errors
/// *Invalid*, if one of them is empty.
pub fn label_zones(label: &str) -> Result<Zones> {
    split(label, ZONE_DELIMITER).map_err(Error::invalid)
}

/// Parses a label like [`label_zones`], in the order of the label, with repetitions (HELP-81).
///
/// # Errors
/// *Invalid*, if one of them is empty.
pub fn label_zone_list(label: &str) -> Result<Vec<String>> {
    split(label, ZONE_DELIMITER).map_err(Error::invalid)
}

/// Returns the label of a volume that can be attached in these zones (HELP-82).
#[must_use]
pub fn zones_label<'a>(zones: impl IntoIterator<Item = &'a String>) -> String {
    zones
        .into_iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(ZONE_DELIMITER)
}

fn split<C: FromIterator<String>>(text: &str, delimiter: &str) -> Result<C, String> {
    let parts = text.split(delimiter).map(|part| match part.trim() {
        "" => Err(format!(
            "{delimiter:?} separated list ({text:?}) must not contain an empty string"
        )),
        zone => Ok(zone.to_owned()),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_and_its_zones_are_the_same() {
        let zones: Zones = ["b".to_owned(), "a".to_owned()].into();
        assert_eq!(zones_label(&zones), "a__b");
        assert_eq!(label_zones("a__b").unwrap(), zones);
    }
}
