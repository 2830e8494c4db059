//! Tests of every row of the flag table: name, type, default and effect.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use clap::{Arg, Command, CommandFactory as _};
use serde_json::Value;

use super::table::{Effect, Row, rows};
use super::{flags, parse};
use crate::flags::configz::GROUP;
use crate::flags::reference::{REFERENCE_DEFAULTS, SECTIONS};
use crate::flags::removed::Kind;
use crate::flags::{
    Configuration, Flags, Parsed, Program, command, provider_flags, reference, removed,
};

pub(super) fn declared() -> Command {
    command::prepare(Flags::command(), &Program::default())
}

pub(super) fn default(flag: &Arg) -> String {
    flag.get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns `true` for a flag that the table leaves out: one without effect that another table declares.
fn is_elsewhere(name: &str) -> bool {
    removed::REMOVED.iter().any(|flag| flag.name == name)
        || provider_flags::all().any(|flag| flag.name == name)
}

#[test]
fn table_has_each_declared_flag_with_its_type_and_the_default_of_the_go_program() {
    let command = declared();
    let declared: BTreeSet<_> = command
        .get_arguments()
        .filter(|flag| !flag.is_positional() && !is_elsewhere(flag.get_long().unwrap()))
        .map(|flag| {
            let name = flag.get_long().unwrap();
            let differs = REFERENCE_DEFAULTS
                .into_iter()
                .find(|(differs, _)| *differs == name);
            let default = default(flag);
            // D-10 lists differences only.
            assert_ne!(
                differs.map(|(_, reference)| reference),
                Some(&*default),
                "--{name}"
            );
            let default = differs.map_or(default, |(_, reference)| reference.to_owned());
            (name.to_owned(), reference::kind(flag), default)
        })
        .collect();
    let rows: BTreeSet<_> = rows()
        .into_iter()
        .map(|row| (row.name.to_owned(), row.kind, row.default.to_owned()))
        .collect();
    let left_over = rows.difference(&declared);
    let missing = declared.difference(&rows);
    let (left_over, missing): (Vec<_>, Vec<_>) = (left_over.collect(), missing.collect());
    assert!(
        left_over.is_empty() && missing.is_empty(),
        "only in the table: {left_over:?}; not in it: {missing:?}"
    );
}

#[test]
fn each_shown_flag_has_a_help_text() {
    for flag in declared()
        .get_arguments()
        .filter(|flag| !flag.is_positional() && !flag.is_hide_set())
    {
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(
            help.split_whitespace().count() > 2,
            "--{}: {help:?}",
            flag.get_long().unwrap()
        );
    }
}

/// Checks that `/configz` has this value after the change, and not before.
fn is_shown(row: &Row, (unchanged, changed): (&Flags, &Flags), pointer: &str, expected: &Value) {
    let at = |flags: &Flags| flags.configz()[GROUP].pointer(pointer).unwrap().clone();
    assert_eq!(at(changed), *expected, "--{}", row.name);
    assert_ne!(at(unchanged), *expected, "--{}", row.name);
}

/// Checks that the configuration has an option after the change, and not before.
fn is_option(row: &Row, (unchanged, changed): (&Flags, &Flags), holds: fn(&Configuration) -> bool) {
    let before = std::panic::catch_unwind(AssertUnwindSafe(|| holds(&unchanged.configuration())))
        .unwrap_or(false);
    assert!(holds(&changed.configuration()) && !before, "--{}", row.name);
}

#[test]
fn changed_value_of_each_flag_has_its_effect() {
    for row in rows() {
        let changed = match row.effect {
            Effect::Says => {
                assert!(
                    matches!(parse(row.changed), Parsed::Say(_)),
                    "--{}",
                    row.name
                );
                continue;
            }
            _ => flags(row.changed),
        };
        let unchanged = flags(&[]);
        match row.effect {
            Effect::Configz(pointer, expected) => {
                is_shown(&row, (&unchanged, &changed), pointer, &expected());
            }
            Effect::Option(holds) => is_option(&row, (&unchanged, &changed), holds),
            Effect::Both(pointer, expected, holds) => {
                is_shown(&row, (&unchanged, &changed), pointer, &expected());
                is_option(&row, (&unchanged, &changed), holds);
            }
            Effect::Warns => {
                let said = |flags: &Flags| {
                    let notices = flags.notices().into_iter().map(|notice| notice.text);
                    notices
                        .chain(flags.deprecations())
                        .filter(|text| text.contains(&format!("--{}", row.name)))
                        .count()
                };
                assert_eq!((said(&unchanged), said(&changed)), (0, 1), "--{}", row.name);
                assert_eq!(
                    changed.configuration().options,
                    unchanged.configuration().options,
                    "--{}",
                    row.name
                );
            }
            Effect::Says => {}
        }
    }
}

#[test]
fn removed_flag_is_accepted_with_one_deprecation() {
    for removed::RemovedFlag { name, kind, .. } in removed::REMOVED {
        let value = match kind {
            Kind::Bool => "true",
            Kind::Int => "1800",
            Kind::Float => "1.5",
            Kind::Ip => "127.0.0.1",
            Kind::Text => "metric,label=value",
        };
        let flags = flags(&[&format!("--{name}={value}")]);
        let lines = flags.deprecations();
        assert_eq!(lines.len(), 1, "--{name}: {lines:?}");
        assert!(
            lines[0].starts_with(&format!("Flag --{name} has been deprecated, ")),
            "{lines:?}"
        );
        assert_eq!(
            flags.configuration().options,
            super::flags(&[]).configuration().options,
            "--{name}"
        );
    }
}

#[test]
fn help_lists_each_shown_flag_in_the_order_of_the_sections() {
    let Parsed::Say(help) = parse(&["--help"]) else {
        panic!("no help")
    };
    let places: Vec<_> = SECTIONS
        .iter()
        .map(|section| {
            help.find(&format!("\n{section}:\n"))
                .unwrap_or_else(|| panic!("{section}"))
        })
        .collect();
    assert!(places.is_sorted(), "{help}");
    for flag in declared()
        .get_arguments()
        .filter(|flag| !flag.is_positional())
    {
        let name = flag.get_long().unwrap();
        let shown = help.lines().any(|line| {
            line.trim_start_matches([' ', '-', 'h', 'v', ','])
                .starts_with(name.trim_start_matches(['h', 'v']))
                && line
                    .split([' ', '=', '[', ','])
                    .any(|word| word.strip_prefix("--") == Some(name))
        });
        assert_eq!(shown, !flag.is_hide_set(), "--{name}:\n{help}");
    }
}
