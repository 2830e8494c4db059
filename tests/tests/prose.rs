//! Doc comments that do not read like the field's: counted in each crate, and never more than before. Long lines of prose in
//! Markdown: none.
//!
//! A doc block is a run of `///` or `//!` lines. It falls short if it begins with a pronoun or a wh-word, or has three words or
//! fewer. `prose/limits.txt` has the counts that each crate may have. `CCM_WRITE_REFERENCE=1 cargo test --workspace --test prose`
//! lowers the limits of crates that have improved; nothing raises them but an edit. A crate without a limit meets the goal:
//! 1 % of its blocks with such a beginning, 5 % with three words or fewer. `-- --nocapture` shows the figures.
//!
//! A line of prose in Markdown has at most 120 characters, without the addresses of its links. Headings, table rows, code, and what
//! a generator writes may be longer.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const LIMITS: &str = "tests/tests/prose/limits.txt";

/// Characters that a line of prose in Markdown may have.
const WIDTH: usize = 120;

/// Pages that a generator writes.
const GENERATED: [&str; 2] = ["docs/reference/", "docs/rules/index.md"];

/// First words of a doc block that do not name its subject.
const STARTS: &str = "what where when which who whom whose whoever whatever why how whether that this these those it its \
    they their he she one ones such so same others another somebody nobody everybody everything something nothing all \
    both neither either as";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Start,
    Short,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Figures {
    blocks: usize,
    starts: usize,
    short: usize,
}

/// Returns the first line number of each doc block with its fault, if it has one.
fn blocks(text: &str) -> Vec<(usize, Option<Fault>)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some((sign, first)) = doc(line) else {
            continue;
        };
        let mut whole = first.to_owned();
        while let Some((_, more)) = lines
            .peek()
            .and_then(|(_, line)| doc(line))
            .filter(|(other, _)| *other == sign)
        {
            _ = write!(whole, " {more}");
            lines.next();
        }
        let is_prose = !["```", "|", "#", "-", "*", "<"]
            .iter()
            .any(|text| first.starts_with(text));
        if is_prose && let Some(word) = words(first).next() {
            found.push((number + 1, fault(word, words(&whole).count())));
        }
    }
    found
}

/// Returns the sign of a line of documentation and its text.
fn doc(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (sign, text) = line.split_at_checked(3)?;
    ["///", "//!"]
        .contains(&sign)
        .then(|| (sign, text.strip_prefix(' ').unwrap_or(text)))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii_alphanumeric() && !"_'`-".contains(character))
        .filter(|part| !part.is_empty())
}

fn fault(first: &str, count: usize) -> Option<Fault> {
    let first = first.trim_matches(['`', '\'']).to_lowercase();
    if STARTS.split_whitespace().any(|text| text == first) {
        return Some(Fault::Start);
    }
    (count <= 3).then_some(Fault::Short)
}

/// Adds the figures of the `.rs` files in a folder to those of its crate.
fn measure(folder: &Path, name: &str, figures: &mut BTreeMap<String, Figures>) {
    for path in std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            measure(&path, name, figures);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let of = figures.entry(name.to_owned()).or_default();
            for (_, fault) in blocks(&std::fs::read_to_string(&path).unwrap()) {
                of.blocks += 1;
                of.starts += usize::from(fault == Some(Fault::Start));
                of.short += usize::from(fault == Some(Fault::Short));
            }
        }
    }
}

/// Returns the figures of each crate: a folder in `crates` or `providers`, `templates`, `tests` or `xtask`.
fn figures() -> BTreeMap<String, Figures> {
    let mut figures = BTreeMap::new();
    for top in ["crates", "providers"] {
        for entry in std::fs::read_dir(format!("{ROOT}/{top}")).unwrap() {
            let entry = entry.unwrap();
            measure(
                &entry.path(),
                &format!("{top}/{}", entry.file_name().display()),
                &mut figures,
            );
        }
    }
    for top in ["templates", "tests", "xtask"] {
        measure(&Path::new(ROOT).join(top), top, &mut figures);
    }
    figures
}

/// Reads lines of a crate with the counts of beginnings and of short blocks that it may have.
fn limits(text: &str) -> BTreeMap<String, [usize; 2]> {
    let rows = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let [name, starts, short] = cells[..] else {
                panic!("{LIMITS}: {line:?}")
            };
            (
                name.to_owned(),
                [starts.parse().unwrap(), short.parse().unwrap()],
            )
        });
    rows.collect()
}

/// Returns the limits of a crate: those of the file, else the goal.
fn limit(name: &str, figures: Figures, limits: &BTreeMap<String, [usize; 2]>) -> [usize; 2] {
    limits
        .get(name)
        .copied()
        .unwrap_or([figures.blocks / 100, figures.blocks / 20])
}

/// Returns a sentence for each crate that has more faults than it may have.
fn worse(
    figures: &BTreeMap<String, Figures>,
    limits: &BTreeMap<String, [usize; 2]>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, object) in figures {
        let [starts, short] = limit(name, *object, limits);
        if object.starts > starts {
            found.push(format!(
                "{name}: {} doc blocks begin with a pronoun or a wh-word, {starts} may",
                object.starts
            ));
        }
        if object.short > short {
            found.push(format!(
                "{name}: {} doc blocks have three words or fewer, {short} may",
                object.short
            ));
        }
    }
    found
}

/// Returns the figures as a table.
fn table(figures: &BTreeMap<String, Figures>) -> String {
    let mut out = format!(
        "{:36}{:>10}{:>18}{:>18}\n",
        "crate", "blocks", "bad beginning", "≤ 3 words"
    );
    let total = figures
        .values()
        .fold(Figures::default(), |sum, figures| Figures {
            blocks: sum.blocks + figures.blocks,
            starts: sum.starts + figures.starts,
            short: sum.short + figures.short,
        });
    let rows = figures
        .iter()
        .map(|(name, figures)| (name.as_str(), *figures))
        .chain([("total", total)]);
    for (name, object) in rows {
        #[allow(clippy::cast_precision_loss)] // thousands
        let percent = |count: usize| 100.0 * count as f64 / object.blocks.max(1) as f64;
        let starts = percent(object.starts);
        let short = percent(object.short);
        _ = writeln!(
            out,
            "{name:36}{:>10}{:>10} {starts:>6.1}%{:>10} {short:>6.1}%",
            object.blocks, object.starts, object.short
        );
    }
    out
}

/// Returns the number and the length of each line of prose that is longer than [`WIDTH`].
fn long_lines(page: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut is_code = false;
    let mut is_generated = false;
    for (number, line) in page.lines().enumerate() {
        let text = line.trim_start();
        if text.starts_with("```") {
            is_code = !is_code;
        } else if text.starts_with("<!-- ") {
            is_generated =
                text.contains(" begins: generated") || (is_generated && !text.contains(" ends "));
        } else if !is_code
            && !is_generated
            && !line.starts_with("    ")
            && !text.starts_with(['|', '#'])
        {
            let length = length_without_addresses(line);
            if length > WIDTH {
                found.push((number + 1, length));
            }
        }
    }
    found
}

/// Counts the characters of a line without the addresses of its links: `[text](address)` counts as `[text]()`.
fn length_without_addresses(line: &str) -> usize {
    let mut parts = line.split("](");
    let first = parts.next().map_or(0, |text| text.chars().count());
    parts.fold(first, |sum, part| {
        let rest = part.find(')').map_or(part, |end| &part[end..]);
        sum + "](".len() + rest.chars().count()
    })
}

/// Reads the long lines of all pages below a folder.
fn measure_pages(folder: &Path, found: &mut Vec<String>) {
    for path in std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        let name = path
            .strip_prefix(ROOT)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if path.is_dir()
            && ![".git", "target"]
                .iter()
                .any(|target| path.ends_with(target))
        {
            measure_pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md")
            && !GENERATED
                .iter()
                .any(|generated| name.starts_with(generated))
        {
            let lines = long_lines(&std::fs::read_to_string(&path).unwrap());
            found.extend(
                lines
                    .into_iter()
                    .map(|(line, length)| format!("{name}:{line}: {length} characters")),
            );
        }
    }
}

#[test]
fn lines_of_prose_in_markdown_fit_on_a_screen() {
    let mut found = Vec::new();
    measure_pages(Path::new(ROOT), &mut found);
    found.sort_unstable();
    assert_eq!(found, [""; 0], "wrap prose at {WIDTH} characters");
}

#[test]
fn long_line_of_prose_is_found() {
    let long = "word ".repeat(25);
    let excepted = format!("# {long}\n| {long} |\n    {long}\n```text\n{long}\n```\n");
    let generated =
        format!("<!-- keys begins: generated from src/keys.rs -->\n{long}\n<!-- keys ends -->\n");
    let linked = format!(
        "See [the page](https://example.com/{}) and [another](../b.md).\n",
        "x".repeat(WIDTH)
    );
    assert!(long_lines(&format!("{excepted}{generated}{linked}")).is_empty());
    assert_eq!(
        long_lines(&format!("{excepted}{generated}{linked}- {long}\n")),
        [(11, 127)]
    );
    assert!(
        long_lines(&"ü".repeat(WIDTH)).is_empty(),
        "characters are counted, not bytes"
    );
    assert_eq!(
        long_lines(&format!("[a](b) {long}")),
        [(1, 131)],
        "text beside a link counts"
    );
}

#[test]
fn doc_comments_of_a_crate_never_get_worse() {
    let figures = figures();
    println!("{}", table(&figures));
    let path = format!("{ROOT}/{LIMITS}");
    let limits = limits(&std::fs::read_to_string(&path).unwrap());
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        let mut text = String::from(
            "# crate, doc blocks with a bad beginning, doc blocks of three words or fewer\n",
        );
        for (name, object) in figures
            .iter()
            .filter(|(name, _)| limits.contains_key(*name))
        {
            let [starts, short] = limit(name, *object, &limits);
            _ = writeln!(
                text,
                "{name} {} {}",
                object.starts.min(starts),
                object.short.min(short)
            );
        }
        std::fs::write(&path, text).unwrap();
        return;
    }
    let worse = worse(&figures, &limits);
    assert_eq!(
        worse, [""; 0],
        "begin with a noun phrase or a third-person verb, and name the subject"
    );
}

#[test]
fn faults_of_a_doc_block_are_found() {
    let text = "//! Whether it is.\n\n/// A noun phrase that names\n/// its subject.\nfn a() {}\n/// Two words.\n/// ```\n/// it\n/// ```\n    /// Short one.\n";
    let faults = [(1, Some(Fault::Start)), (3, None), (6, None)];
    assert_eq!(blocks(text)[..2], faults[..2]);
    assert_eq!(
        blocks("/// Two words.\nfn a() {}"),
        [(1, Some(Fault::Short))]
    );
    assert!(blocks("/// | a | table |").is_empty());
}

#[test]
fn crate_with_more_faults_than_before_is_reported() {
    let limits = limits("# comment\ncrates/a 2 1\n");
    let of = |blocks, starts, short| Figures {
        blocks,
        starts,
        short,
    };
    let figures = BTreeMap::from([
        ("crates/a".to_owned(), of(100, 3, 2)),
        ("crates/new".to_owned(), of(100, 2, 5)),
    ]);
    let worse = worse(&figures, &limits);
    assert_eq!(worse.len(), 3, "{worse:?}");
    assert!(
        worse[2].starts_with("crates/new: 2 doc blocks begin"),
        "{worse:?}"
    );
    assert!(
        self::worse(
            &BTreeMap::from([("crates/a".to_owned(), of(9, 2, 1))]),
            &limits
        )
        .is_empty()
    );
}
