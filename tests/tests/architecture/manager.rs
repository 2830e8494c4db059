//! The structure of the crate `manager`: modules with one door, flags that are all read, and a short way from `main` to
//! a controller's loop.

use std::path::{Path, PathBuf};

use regex_lite::Regex;

use super::{ROOT, directories};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a directory and all directories in it.
fn directories_below(directory: PathBuf) -> Vec<PathBuf> {
    let inner: Vec<_> = directories(&directory)
        .into_iter()
        .flat_map(directories_below)
        .collect();
    inner.into_iter().chain([directory]).collect()
}

/// Returns the modules that a door declares as visible from outside.
fn open_modules(door: &str) -> Vec<String> {
    let open = Regex::new(r"(?m)^pub(?:\([a-z]+\))? mod (\w+);").unwrap();
    open.captures_iter(door)
        .map(|found| found[1].to_owned())
        .collect()
}

#[test]
fn modules_of_the_manager_have_one_door() {
    let source = Path::new(ROOT).join("crates/manager/src");
    let inside = |path: &PathBuf| {
        path.strip_prefix(&source)
            .map(Path::to_owned)
            .unwrap_or_default()
    };
    let is_tests = |path: &PathBuf| {
        inside(path)
            .components()
            .any(|part| part.as_os_str() == "tests")
    };
    let modules: Vec<_> = directories(&source)
        .into_iter()
        .flat_map(directories_below)
        .filter(|path| !is_tests(path))
        .collect();
    assert!(modules.len() > 12, "{modules:?}");
    for module in modules {
        // A directory belongs to `mod.rs` in it, or to the file of the same name, which holds only the tests apart.
        let door = module.join("mod.rs");
        let text = if door.is_file() {
            read(&door)
        } else {
            read(&module.with_extension("rs"))
        };
        // The subcommands are modules of the library's interface.
        let expected: &[&str] = if module.ends_with("commands") {
            &["doctor", "explain", "orphans", "plan"]
        } else {
            &[]
        };
        assert_eq!(open_modules(&text), expected, "{}", module.display());
    }
    assert_eq!(
        open_modules("mod a;\npub(crate) mod b;\npub mod c;\n"),
        ["b", "c"]
    );
}

/// Returns the fields that patterns of this struct bind, one text for each pattern.
fn patterns(name: &str, sources: &str) -> Vec<String> {
    let pattern = Regex::new(&format!(r"let &?{name} \{{([^}}]*)\}}\s*=")).unwrap();
    pattern
        .captures_iter(sources)
        .map(|found| found[1].to_owned())
        .collect()
}

#[test]
fn every_struct_of_flags_is_destructured_once_with_all_its_fields() {
    let directory = Path::new(ROOT).join("crates/manager/src/flags");
    let files = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sources: String = files
        .filter(|path| path.is_file())
        .map(|path| read(&path))
        .collect();
    let declared = Regex::new(r"#\[derive\(Args[^\n]*\n(?:#\[[^\n]*\n)*pub struct (\w+)").unwrap();
    let mut names: Vec<_> = declared
        .captures_iter(&sources)
        .map(|found| found[1].to_owned())
        .collect();
    names.push("Flags".to_owned());
    assert!(names.len() >= 18, "{names:?}");
    for name in names {
        let patterns = patterns(&name, &sources);
        assert_eq!(patterns.len(), 1, "{name}: {patterns:?}");
        assert!(
            !patterns[0].contains(".."),
            "{name} leaves fields out: {}",
            patterns[0]
        );
    }
    // A field that is bound and not used does not compile, either.
    assert!(read(&directory.join("mod.rs")).contains("\n#![deny(unused_variables)]\n"));
    assert_eq!(
        patterns(
            "AFlags",
            "let AFlags { a, .. } = self;\nlet &AFlags { b } =\n x;"
        ),
        [" a, .. ", " b "]
    );
}

/// Returns the body of a function, in the first `impl` block of `owner` that has it if an owner is given.
fn body(source: &str, owner: Option<&str>, function: &str) -> Option<String> {
    let start = owner.map_or(Some(0), |owner| {
        Some(
            Regex::new(&format!(r"\nimpl {owner}\b"))
                .unwrap()
                .find(source)?
                .start(),
        )
    })?;
    let rest = &source[start..];
    let rest = &rest[Regex::new(&format!(r"\bfn {function}[<(]"))
        .unwrap()
        .find(rest)?
        .start()..];
    let open = Regex::new(r"[ \n]\{\n").unwrap().find(rest)?.start() + 1;
    let mut depth = 0;
    let end = rest[open..].char_indices().find_map(|(index, character)| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        (depth == 0).then_some(index)
    })?;
    Some(rest[open..open + end].to_owned())
}

/// Returns the chain of calls that a page names: lines `    FILE: FUNCTION` or `    FILE: FUNCTION (TYPE)`.
fn chain(page: &str) -> Vec<(String, String, Option<String>)> {
    let line = Regex::new(r"(?m)^    ([\w/-]+\.rs): (\w+)(?: \((\w+)\))?$").unwrap();
    let parts = |found: regex_lite::Captures<'_>| {
        (
            found[1].to_owned(),
            found[2].to_owned(),
            found.get(3).map(|owner| owner.as_str().to_owned()),
        )
    };
    line.captures_iter(page).map(parts).collect()
}

#[test]
fn controllers_loop_is_at_most_eight_calls_away_from_main() {
    let chain = chain(&read(&Path::new(ROOT).join("ARCHITECTURE.md")));
    let bodies: Vec<_> = chain
        .iter()
        .map(|(file, function, owner)| {
            let source = read(&Path::new(ROOT).join("crates").join(file));
            body(&source, owner.as_deref(), function)
                .unwrap_or_else(|| panic!("{file} has no function {function}"))
        })
        .collect();
    for (index, (_, callee, _)) in chain.iter().enumerate().skip(1) {
        assert!(
            bodies[index - 1].contains(&format!("{callee}(")),
            "{:?} does not call {callee}",
            chain[index - 1]
        );
    }
    assert_eq!(chain[0].1, "main");
    assert!(
        bodies.last().unwrap().contains("loop {"),
        "the last function has the loop"
    );
    let calls = chain.len() - 1;
    assert!((2..=8).contains(&calls), "{calls} calls: {chain:?}");
    let sample = "\nimpl A {\n    fn f() {\n        g();\n    }\n}\nimpl B {\n    fn f() {\n        h({ 1 });\n    }\n}\n";
    assert!(body(sample, Some("B"), "f").unwrap().contains("h({ 1 });"));
    assert!(!body(sample, None, "f").unwrap().contains("h("));
}
