//! Tests of every row of the flag table: name, default and effect.

use std::panic::AssertUnwindSafe;

use clap::{Arg, Command, CommandFactory as _};

use super::table::{EXTRA, Effect, OWN, rows};
use super::{flags, parse};
use crate::flags::configz::GROUP;
use crate::flags::reference::{REFERENCE_DEFAULTS, SECTIONS};
use crate::flags::{Flags, Parsed, Program, command, provider_flags, removed};

fn declared() -> Command {
    command::prepare(Flags::command(), &Program::default())
}

fn default(flag: &Arg) -> String {
    flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",")
}

#[test]
fn defaults_differ_only_where_a_decision_says_so() {
    let command = declared();
    let mut differ = Vec::new();
    for row in rows() {
        let flag = command.get_arguments().find(|flag| flag.get_long() == Some(row.name));
        let flag = flag.unwrap_or_else(|| panic!("--{} is not declared", row.name));
        differ.extend((default(flag) != row.reference).then_some((row.name, row.reference)));
    }
    differ.sort_unstable();
    assert_eq!(differ, REFERENCE_DEFAULTS);
    assert_eq!(rows().len(), 86, "as many as the reference accepts with both log formats");
}

#[test]
fn a_changed_value_of_every_row_has_its_effect() {
    for row in rows() {
        let changed = match row.effect {
            Effect::Says => {
                assert!(matches!(parse(row.changed), Parsed::Say(_)), "--{}", row.name);
                continue;
            }
            _ => flags(row.changed),
        };
        let unchanged = flags(&[]);
        match row.effect {
            Effect::Configz(pointer, expected) => {
                let at = |flags: &Flags| flags.configz()[GROUP].pointer(pointer).unwrap().clone();
                assert_eq!(at(&changed), expected(), "--{}", row.name);
                assert_ne!(at(&unchanged), expected(), "--{}", row.name);
            }
            Effect::Option(holds) => {
                let before =
                    std::panic::catch_unwind(AssertUnwindSafe(|| holds(&unchanged.configuration()))).unwrap_or(false);
                assert!(holds(&changed.configuration()) && !before, "--{}", row.name);
            }
            Effect::Warns => {
                let said = |flags: &Flags| {
                    let notices = flags.notices().into_iter().map(|notice| notice.text);
                    notices.chain(flags.deprecations()).filter(|text| text.contains(&format!("--{}", row.name))).count()
                };
                assert_eq!((said(&unchanged), said(&changed)), (0, 1), "--{}", row.name);
                assert_eq!(changed.configuration().options, unchanged.configuration().options, "--{}", row.name);
            }
            Effect::Says => {}
        }
    }
}

#[test]
fn what_the_specification_calls_inert_warns() {
    assert_eq!(EXTRA.len(), removed::REMOVED.len());
    for argument in EXTRA {
        let flags = flags(&[argument]);
        let name = argument.split('=').next().unwrap();
        let lines = flags.deprecations();
        assert_eq!(lines.len(), 1, "{argument}: {lines:?}");
        assert!(lines[0].starts_with(&format!("Flag {name} has been deprecated, ")), "{lines:?}");
        assert!(!flags.dump().is_empty());
    }
}

#[test]
fn nothing_is_declared_that_is_in_no_table() {
    let rows = rows();
    for flag in declared().get_arguments().filter(|flag| !flag.is_positional()) {
        let name = flag.get_long().unwrap();
        let known = rows.iter().any(|row| row.name == name)
            || removed::REMOVED.iter().any(|flag| flag.name == name)
            || provider_flags::all().any(|flag| flag.name == name);
        assert!(known != OWN.contains(&name), "--{name}");
    }
}

#[test]
fn the_help_lists_all_that_is_not_hidden_in_the_order_of_the_sections() {
    let Parsed::Say(help) = parse(&["--help"]) else { panic!("no help") };
    let places: Vec<_> = SECTIONS
        .iter()
        .map(|section| help.find(&format!("\n{section}:\n")).unwrap_or_else(|| panic!("{section}")))
        .collect();
    assert!(places.is_sorted(), "{help}");
    for flag in declared().get_arguments().filter(|flag| !flag.is_positional()) {
        let name = flag.get_long().unwrap();
        let shown = help.lines().any(|line| {
            line.trim_start_matches([' ', '-', 'h', 'v', ',']).starts_with(name.trim_start_matches(['h', 'v']))
                && line.contains(&format!("--{name}"))
        });
        assert_eq!(shown, !flag.is_hide_set(), "--{name}:\n{help}");
    }
}
