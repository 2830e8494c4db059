//! Spreading volumes over zones, so that those of a StatefulSet's Pods lie in different ones.

use cloud_provider::{Error, Result};

use super::Zones;

/// Returns hash and index of a claim's name (HELP-84): claims of one StatefulSet share the hash and count up the index.
/// A claim without a name gets a random hash.
#[must_use]
pub fn hash_and_index(claim: &str) -> (u32, u32) {
    if claim.is_empty() {
        return (fastrand::u32(..), 0);
    }
    let numbered = claim
        .rsplit_once('-')
        .and_then(|(set, number)| Some((set, index(number)?)));
    match numbered {
        // Claims of one Pod get the same zone: the part of the name that distinguishes them is not hashed.
        Some((set, index)) => (fnv(set.rsplit_once('-').map_or(set, |(_, set)| set)), index),
        None => (fnv(claim), 0),
    }
}

fn index(text: &str) -> Option<u32> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// Computes the FNV-1 hash of 32 bits.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(2_166_136_261, |hash: u32, byte| {
        hash.wrapping_mul(16_777_619) ^ u32::from(byte)
    })
}

/// Chooses `count` of the zones for a claim, all of them if there are no more (HELP-85).
///
/// The Go cloud-controller-manager placed existing volumes, so the choice is exactly its choice: of a claim whose index
/// times `count` reaches 2³², none.
#[must_use]
pub fn choose_zones(zones: &Zones, claim: &str, count: u32) -> Zones {
    let (hash, index) = hash_and_index(claim);
    let sorted: Vec<&String> = zones.iter().collect();
    let Ok(most @ 1..) = u32::try_from(sorted.len()) else {
        return Zones::new();
    };
    let start = index.wrapping_mul(count);
    if start.checked_add(count).is_none() {
        return Zones::new();
    }
    // After two rounds nothing new comes, even if the position wraps in one of them.
    (0..count.min(most.saturating_mul(2)))
        .map(|offset| {
            sorted[(hash.wrapping_add(start).wrapping_add(offset) % most) as usize].clone()
        })
        .collect()
}

/// Chooses zones like [`choose_zones`], but never fewer than `count`, and with `include` among them unless that is
/// empty (HELP-86).
///
/// # Errors
/// *Invalid*, if there are too few zones, `include` is none of them, or `count` is 0.
pub fn choose_zones_including(
    zones: &Zones,
    claim: &str,
    include: &str,
    count: u32,
) -> Result<Zones> {
    if count == 0 {
        return Err(Error::invalid("invalid number of replicas passed"));
    }
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    if zones.len() < wanted {
        return Err(Error::invalid(format!(
            "not enough zones found to provision a volume with {count} replicas. Need at least {count} distinct zones \
             for a volume with {count} replicas"
        )));
    }
    if !include.is_empty() && !zones.contains(include) {
        let zones = zones
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(Error::invalid(format!(
            "zone to be included: {include} needs to be member of set: {zones}"
        )));
    }
    if zones.len() == wanted {
        return Ok(zones.clone());
    }
    if include.is_empty() {
        return Ok(choose_zones(zones, claim, count));
    }
    let others = zones
        .iter()
        .filter(|zone| *zone != include)
        .cloned()
        .collect();
    let mut chosen = choose_zones(&others, claim, count - 1);
    chosen.insert(include.to_owned());
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(names: &str) -> Zones {
        names.chars().map(|name| name.to_string()).collect()
    }

    #[test]
    fn numbers_end_a_name_only_if_they_are_plain_and_fit() {
        for (claim, expected) in [
            ("a-+7", 0),
            ("a-4294967295", u32::MAX),
            ("a-4294967296", 0),
            ("a-007", 7),
            ("7", 0),
        ] {
            assert_eq!(hash_and_index(claim).1, expected, "{claim}");
        }
        assert_ne!(hash_and_index("").0, hash_and_index("").0);
    }

    #[test]
    fn more_zones_than_there_are_are_all_of_them() {
        assert_eq!(choose_zones(&zones("abc"), "web-0", u32::MAX), zones("abc"));
        assert!(choose_zones(&zones("abc"), "web-0", 0).is_empty());
        assert!(
            choose_zones(&zones("abc"), "web-1", u32::MAX).is_empty(),
            "the quirk of HELP-85"
        );
        // Wherever the hash wraps, no zone is missed.
        for claim in ["a", "henley", "quiet", "x-y"] {
            assert_eq!(
                choose_zones(&zones("abcdefg"), claim, 7),
                zones("abcdefg"),
                "{claim}"
            );
        }
    }

    #[test]
    fn what_is_passed_in_is_left_as_it_was() {
        let zones = zones("abcd");
        let chosen = choose_zones_including(&zones, "web-0", "d", 2).unwrap();
        assert!(chosen.contains("d") && chosen.len() == 2);
        assert_eq!(zones.len(), 4, "HELP-90");
    }
}
