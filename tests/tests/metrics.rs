//! The series that the program shows are those of the specification: every row of its tables, and nothing beside them
//! but what has our own prefix.

// The helpers of these tests too may fail a test by a panic.
#![allow(clippy::unwrap_used)]

#[path = "metrics/drive.rs"]
mod drive;
#[path = "metrics/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};

use ccm_tests::exposition::{Family, parse};
use metrics::Metrics;
use serving::health::Health;
use table::{Presence, Priority, Row, rows};

const PROVIDER: &str = "simulated";

/// Both paths.
fn shown(metrics: &Metrics, health: &Health) -> [BTreeMap<String, Family>; 2] {
    [parse(&metrics.render()), parse(&metrics.render_slis(health))]
}

/// A process that has used every hook once.
fn driven() -> [BTreeMap<String, Family>; 2] {
    let (metrics, health) = (drive::started(), Health::new());
    drive::controllers(&metrics);
    drive::everything(&metrics, &health, PROVIDER);
    shown(&metrics, &health)
}

#[tokio::test]
async fn every_row_is_shown_as_the_specification_says() {
    let [metrics, slis] = driven();
    let mut faults = Vec::new();
    for row in rows().iter().filter(|row| row.lacking.is_none()) {
        let families = if row.section == 9 { &slis } else { &metrics };
        faults.extend(row.faults(families.get(&row.name(PROVIDER))));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_that_must_be_there_is_lacking_and_nothing_accidental_is_there() {
    for row in rows() {
        match row.priority {
            Priority::Must => assert_eq!(row.lacking, None, "{}", row.name),
            Priority::No => assert!(row.lacking.is_some(), "{}", row.name),
            // What should be there and is not has its reason in the table.
            Priority::Should | Priority::Opt => {}
        }
    }
}

#[tokio::test]
async fn what_is_in_no_table_has_our_prefix() {
    let known: BTreeSet<String> = rows().iter().map(|row| row.name(PROVIDER)).collect();
    for name in driven().iter().flat_map(BTreeMap::keys) {
        assert!(name.starts_with("ccm_") || known.contains(name), "{name}");
    }
    for row in rows().iter().filter(|row| row.lacking.is_some()) {
        let prefix = row.name.trim_end_matches('*');
        let found = driven().iter().flat_map(BTreeMap::keys).any(|name| name == prefix || row.is_family(name));
        assert!(!found, "{} is there, though the table says why it is not", row.name);
    }
}

#[tokio::test]
async fn a_standby_shows_what_is_there_from_the_start_and_a_leader_more() {
    let (metrics, health) = (drive::started(), Health::new());
    let expect = |families: &[BTreeMap<String, Family>; 2], there: &[Presence]| {
        for row in rows().iter().filter(|row| row.lacking.is_none() && row.presence != Presence::Any) {
            let found = families[usize::from(row.section == 9)].contains_key(&row.name(PROVIDER));
            assert_eq!(found, there.contains(&row.presence), "{} is there from: {:?}", row.name, row.presence);
        }
    };
    expect(&shown(&metrics, &health), &[Presence::Start]);
    drive::controllers(&metrics);
    expect(&shown(&metrics, &health), &[Presence::Start, Presence::Leader]);
}

#[tokio::test]
async fn every_declaration_is_shown_once_it_is_used() {
    let shown = driven();
    for series in metrics::series::all() {
        let name = series.name.replace(metrics::series::PROVIDER, PROVIDER);
        assert!(shown.iter().any(|families| families.contains_key(&name)), "{name} is declared and never shown");
    }
}

#[test]
fn rows_name_each_series_once() {
    let rows: Vec<Row> = rows();
    assert!(rows.len() > 90, "{}", rows.len());
    let names: BTreeSet<_> = rows.iter().map(|row| (row.section == 9, &row.name)).collect();
    assert_eq!(names.len(), rows.len());
}
