//! The figures as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::go::PROGRAMS;
use super::{Count, Figures, Kind};

/// Returns a line for each crate, the largest first, and one for all.
pub(super) fn of_crates(crates: &BTreeMap<String, Figures>) -> String {
    let mut text = format!(
        "{:32}{:>9}{:>10}{:>9}{:>9}{:>9}{:>13}{:>13}\n",
        "crate", "lines", "tokens", "a line", "tests", "fakes", "|it| ‰", "tuple let ‰"
    );
    let mut rows: Vec<_> = crates.iter().collect();
    rows.sort_by_key(|(_, figures)| std::cmp::Reverse(of_kind(figures, Kind::Code).lines));
    for (name, figures) in rows {
        text.push_str(&line(name, figures));
    }
    let mut total = Figures::new();
    for (kind, count) in crates.values().flatten() {
        *total.entry(*kind).or_default() += *count;
    }
    text.push_str(&line("all", &total));
    text
}

fn line(name: &str, figures: &Figures) -> String {
    let code = of_kind(figures, Kind::Code);
    let all = of_all(figures);
    format!(
        "{name:32}{:>9}{:>10}{:>9.1}{:>9}{:>9}{:>13.1}{:>13.1}\n",
        code.lines,
        code.tokens,
        ratio(code.tokens, code.lines),
        of_kind(figures, Kind::Test).lines,
        of_kind(figures, Kind::Fake).lines,
        1000.0 * ratio(all.unnamed_parameters, all.lines),
        1000.0 * ratio(all.tuple_lets, all.lines),
    )
}

/// Returns a line for each cloud: its tokens, those of the vendor's Go program, and the ratio.
pub(super) fn of_clouds(crates: &BTreeMap<String, Figures>) -> String {
    let mut text = format!(
        "{:16}{:>10}{:>10}{:>8}  {}\n",
        "cloud", "tokens", "in Go", "ratio", "counted in Go"
    );
    for program in PROGRAMS {
        let figures = crates.get(&format!("providers/{}", program.provider));
        let tokens = figures.map_or(0, |figures| of_kind(figures, Kind::Code).tokens);
        _ = writeln!(
            text,
            "{:16}{tokens:>10}{:>10}{:>8.2}  {}: {}",
            program.provider,
            program.tokens,
            ratio(tokens, program.tokens),
            program.source,
            program.folders,
        );
    }
    text
}

pub(super) fn of_kind(figures: &Figures, kind: Kind) -> Count {
    figures.get(&kind).copied().unwrap_or_default()
}

/// Returns the counts of all kinds together.
pub(super) fn of_all(figures: &Figures) -> Count {
    let mut all = Count::default();
    for count in figures.values() {
        all += *count;
    }
    all
}

#[allow(clippy::cast_precision_loss)] // far fewer than 2^52
pub(super) fn ratio(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cloud_is_compared_and_all_crates_are_summed() {
        let code = Count {
            lines: 1000,
            tokens: 8672,
            unnamed_parameters: 2,
            tuple_lets: 3,
        };
        let test = Count {
            lines: 1000,
            ..Count::default()
        };
        let crates = BTreeMap::from([
            (
                "providers/digitalocean".to_owned(),
                Figures::from([(Kind::Code, code), (Kind::Test, test)]),
            ),
            ("xtask".to_owned(), Figures::new()),
        ]);
        let text = of_crates(&crates);
        let cells = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace()
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            cells("providers/digitalocean"),
            "1000 8672 8.7 1000 0 1.0 1.5"
        );
        assert_eq!(cells("all"), cells("providers/digitalocean"));
        let clouds = of_clouds(&crates);
        assert!(
            clouds.contains("digitalocean          8672     17340    0.50"),
            "{clouds}"
        );
        assert_eq!(clouds.lines().count(), PROGRAMS.len() + 1);
    }
}
