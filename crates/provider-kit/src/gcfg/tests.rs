use proptest::prelude::*;

use super::parse::Mistake;
use super::*;
use crate::declared::{Declaration, Value};

const TEXT: Key<String> = Declaration::new("[Main] text", Value::KIND, "");
const OTHER: Key<String> = Declaration::new("[Other] other-key", Value::KIND, "");
const FLAG: Key<bool> = Declaration::new("[Main] flag", TRUTH, "");
const NUMBER: Key<u16> = Declaration::new("[Main] number", Kind::number(1, 9), "").default("3");
const SECRET: Key<u16> = Declaration::new("[Main] pin", Kind::number(1, 9), "").secret();
const OF_CLASS: Key<String> = Declaration::new("[Class \"name\"] text", Value::KIND, "");
const ALL: &[&dyn Declared] = &[&TEXT, &OTHER, &FLAG, &NUMBER, &SECRET, &OF_CLASS];

fn settings(text: &str) -> GitConfigSettings {
    GitConfigSettings::of(&ConfigFile {
        path: "f.conf".into(),
        text: text.into(),
    })
}

/// Returns the value of `text`, in a section of its own.
fn value(line: &str) -> Result<Option<String>, String> {
    let mut file = settings(&format!("[Main]\n{line}"));
    let value = file.get(&TEXT);
    file.finish().map(|()| value).map_err(|err| err.to_string())
}

fn is(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

fn mistakes(text: &str) -> Vec<u32> {
    parse(text)
        .1
        .into_iter()
        .map(|Mistake { line, .. }| line)
        .collect()
}

#[test]
fn value_ends_before_a_comment_and_is_trimmed() {
    for line in [
        "text=a b",
        "text = a b",
        "  text\t=\ta b  ",
        "text = a b # c",
        "text = a b;c",
        "text = a b\r\n",
        "TEXT = a b",
    ] {
        assert_eq!(value(line), is("a b"), "{line:?}");
    }
    assert_eq!(value("text = a=b[c]"), is("a=b[c]"));
    assert_eq!(value("text = héllo ✓"), is("héllo ✓"));
}

#[test]
fn quoted_text_is_literal_wholly_or_in_part() {
    let table = [
        (r#"text = " a # b ; c ""#, " a # b ; c "),
        (r#"text = a" # "b # c"#, "a # b"),
        (r#"text = "a"b"c""#, "abc"),
        (r#"text = "" x"#, " x"),
        ("text = \"a\tb\"  ", "a\tb"),
    ];
    for (line, expected) in table {
        assert_eq!(value(line), is(expected), "{line}");
    }
    assert_eq!(value(r#"text = """#), Ok(None), "empty: not set");
}

#[test]
fn escapes_stand_for_quote_backslash_line_end_and_tab() {
    assert_eq!(value(r#"text = "a\"b\\c\nd\te""#), is("a\"b\\c\nd\te"));
    assert_eq!(
        value(r#"text = a\"b"#),
        is("a\"b"),
        "a quote also outside of quotes"
    );
    for line in [
        r"text = a\b",
        r"text = a\\b",
        r"text = a\n",
        r#"text = "a\b""#,
        r"text = a\",
        r"text = a\ # x",
    ] {
        let err = value(line).unwrap_err();
        assert!(
            err.starts_with("f.conf:2: a backslash must stand before"),
            "{line}: {err}"
        );
    }
}

#[test]
fn backslash_at_a_line_end_joins_the_next_line() {
    assert_eq!(value("text = a \\\n  b\nflag"), is("a   b"));
    assert_eq!(value("text = a\\\r\nb"), is("ab"));
    assert_eq!(value("text = \"a\\\nb\""), is("ab"));
    let (sections, _) = parse("[a]\nx = 1\\\n2\ny = 3");
    assert_eq!(
        sections[0]
            .entries
            .iter()
            .map(|entry| entry.line)
            .collect::<Vec<_>>(),
        [2, 4]
    );
}

#[test]
fn unclosed_quote_is_a_mistake_of_its_line_only() {
    let mut file = settings("[Main]\ntext = \"s3cret\nflag = on\n");
    assert_eq!((file.get(&TEXT), file.get(&FLAG)), (None, Some(true)));
    assert!(file.is_set(&TEXT), "a key with a mistake is not missing");
    let err = file.finish().unwrap_err();
    assert!(err.is_invalid());
    assert_eq!(
        err.to_string(),
        "f.conf:2: a double quote is not closed in its line"
    );
}

#[test]
fn only_sub_names_are_case_sensitive() {
    let text = "[mAIN]\nTeXt = a\n[class \"Gold\"]\ntext = b\n[CLASS \"gold\"]\nTEXT = c\n[ Class\t\"a \\\"b\\\\\" ] # x\ntext = d";
    let mut file = settings(text);
    assert_eq!(file.get(&TEXT).as_deref(), Some("a"));
    let of = |file: &mut GitConfigSettings, name| file.get_in(name, &OF_CLASS);
    assert_eq!(of(&mut file, "Gold").as_deref(), Some("b"));
    assert_eq!(of(&mut file, "gold").as_deref(), Some("c"));
    assert_eq!(of(&mut file, "GOLD"), None);
    assert_eq!(of(&mut file, "a \"b\\").as_deref(), Some("d"));
    assert_eq!(
        file.subs("class").into_iter().collect::<Vec<_>>(),
        ["Gold", "a \"b\\", "gold"]
    );
    file.unknown(&[ALL]);
    assert!(file.warnings().is_empty(), "{:?}", file.warnings());
    file.finish().unwrap();
}

#[test]
fn repeated_sections_merge_and_the_last_value_counts() {
    let mut file = settings("[Main]\ntext = a\n[Other]\n[Main]\ntext = b\nflag = off\n");
    assert_eq!(
        (file.get(&TEXT).as_deref(), file.get(&FLAG)),
        (Some("b"), Some(false))
    );
    assert_eq!(
        file.warnings(),
        ["f.conf:5: [Main] text is set 2 times: this value counts"]
    );
}

#[test]
fn repeated_key_has_all_values_in_order() {
    let mut file = settings("[Main]\ntext = b\ntext = \"\"\ntext = a b\n[main]\ntext = b\n");
    assert_eq!(file.all(&TEXT), ["b", "a b", "b"]);
    file.finish().unwrap();
    let mut file = settings("[Main]\ntext\ntext = \"");
    assert!(file.all(&TEXT).is_empty());
    assert_eq!(
        file.finish().unwrap_err().to_string(),
        "f.conf:3: a double quote is not closed in its line; f.conf:2: [Main] text needs a value: write `= …`"
    );
}

#[test]
fn truth_values_have_the_words_of_git_and_a_bare_key_is_true() {
    for (text, expected) in [("true", true), ("YES", true), ("On", true), ("1", true)]
        .into_iter()
        .chain([
            ("false", false),
            ("no", false),
            ("OFF", false),
            ("0", false),
        ])
    {
        assert_eq!(
            settings(&format!("[Main]\nflag = {text}")).get(&FLAG),
            Some(expected),
            "{text}"
        );
    }
    assert!(settings("[Main]\nflag").flag(&FLAG));
    assert!(settings("[Main]\nflag # off").flag(&FLAG));
    assert!(!settings("[Main]\nflag =").flag(&FLAG));
    let mut file = settings("[Main]\nflag = maybe");
    assert!(!file.flag(&FLAG));
    assert_eq!(
        file.finish().unwrap_err().to_string(),
        "f.conf:2: [Main] flag: \"maybe\" is not true or false"
    );
}

#[test]
fn unset_and_empty_keys_have_their_default() {
    for text in [
        "",
        "[Main]",
        "[Main]\nnumber =",
        "[Main]\nnumber = \"\"",
        "[Main]\n# number = 4",
        "[Other]\nnumber = 4",
    ] {
        let mut file = settings(text);
        assert_eq!(file.get(&NUMBER), Some(3), "{text:?}");
        assert!(!file.is_set(&NUMBER));
        file.finish().unwrap();
    }
}

#[test]
fn mistake_names_file_line_section_and_key_but_no_secret() {
    let mut file = settings("[Main]\nnumber = 10\npin = 77\ntext\n");
    assert_eq!(
        (file.get(&NUMBER), file.get(&SECRET), file.get(&TEXT)),
        (None, None, None)
    );
    assert_eq!(
        file.finish().unwrap_err().to_string(),
        "f.conf:2: [Main] number: \"10\" is not a whole number from 1 to 9; \
         f.conf:3: [Main] pin: its value is not a whole number from 1 to 9; \
         f.conf:4: [Main] text needs a value: write `= …`"
    );
    let file = settings("[Main]\npin = 77");
    assert!(!format!("{file:?}").contains("77"));
    let mut file = file;
    file.refuse(&SECRET, "is known to all");
    file.warn(&TEXT, "is missing");
    assert_eq!(file.warnings(), ["f.conf: [Main] text is missing"]);
    assert_eq!(
        file.finish().unwrap_err().to_string(),
        "f.conf:2: [Main] pin is known to all"
    );
}

#[test]
fn error_about_a_missing_key_names_the_misspelt_one_as_well() {
    const ADDRESS: Key<String> = Declaration::new("[Main] auth-url", Value::KIND, "");
    let mut file = settings("[Main]\nauth_url = http://cloud\nzebra = 1\n");
    assert_eq!(file.get(&ADDRESS), None);
    file.unknown(&[&[&ADDRESS]]);
    file.mistake("f.conf: [Main] auth-url is missing");
    assert_eq!(
        file.finish().unwrap_err().to_string(),
        "f.conf: [Main] auth-url is missing; f.conf:2: [Main] auth_url is not known: did you mean auth-url?"
    );
}

#[test]
fn invalid_line_is_a_mistake_and_the_rest_is_read() {
    let table = [
        ("text = a", vec![1]),
        ("= a\n[Main]\n", vec![1]),
        ("[Main]\n= a\n", vec![2]),
        ("[Main]\ntext : a\n\"text\" = a\n", vec![2, 3]),
        (
            "[Main\n[]\n[Main]x\n[Main \"a]\n[Main \"\"]\n[Main a]\n[Main \"a\\n\"]\n[",
            (1..9).collect(),
        ),
        ("[Main] ; c\n  # c\n\n; c", vec![]),
        ("\u{feff}[Main]", vec![]),
        ("[Main]\n\u{feff}text = a", vec![2]),
        // Keys below a broken header belong to no section: one mistake is reported, not many.
        ("[Main\ntext = a\nflag\n", vec![1]),
    ];
    for (text, lines) in table {
        assert_eq!(mistakes(text), lines, "{text:?}");
    }
    let mut file = settings("[Main]\n=\ntext = a\n");
    assert_eq!(file.get(&TEXT).as_deref(), Some("a"));
}

#[test]
fn unknown_sections_and_keys_are_warned_of_with_a_suggestion() {
    let text = "[Main]\nnubmer = 1\nother-key = 2\nzebra = 3\nzebra\n[Mian]\nx = 1\n[BlockStorage]\nbs-version = v2\n\
                [Class]\ntext = x\n[Class \"a\"]\ntxt = x\n[Main \"a\"]\n";
    let mut file = settings(text);
    file.unknown(&[ALL]);
    assert_eq!(
        file.warnings(),
        [
            "f.conf:2: [Main] nubmer is not known: did you mean number?",
            "f.conf:3: [Main] other-key is not known: did you mean [Other] other-key?",
            "f.conf:4: [Main] zebra is not known: nothing reads it",
            "f.conf:5: [Main] a key is not known: it has no value, and nothing reads it",
            "f.conf:6: [Mian] is not known: nothing reads it",
            "f.conf:8: [BlockStorage] is not known: nothing reads it",
            "f.conf:10: [Class] is not known: it needs a name, [Class \"name\"]",
            "f.conf:13: [Class \"a\"] txt is not known: nothing reads it",
            "f.conf:14: [Main \"a\"] is not known: nothing reads it",
        ]
    );
    file.finish().unwrap();
}

#[test]
fn a_line_that_may_be_the_rest_of_a_secret_is_named_by_its_number_alone() {
    let table = [
        "[Main]\ns3cret xyz\n",
        "[Main]\ns3cret\n",
        "[Main]\ntext = abc\nzs3cret==\n",
        "[Main]\ntext = abc\nzs3cret=\n",
        "[Main]\ntext = \"abc\nzs3cret = x\"\n",
        "[Main]\ntext = \"abc\n[s3cret]\n",
    ];
    for text in table {
        let mut file = settings(text);
        _ = file.get(&TEXT);
        file.unknown(&[ALL]);
        let warnings = file.warnings().join("\n");
        let told = format!(
            "{warnings}\n{}",
            file.finish()
                .map_or_else(|err| err.to_string(), |()| String::new())
        );
        assert!(
            warnings.contains("not known") && !told.contains("s3cret"),
            "{text:?}: {told}"
        );
    }
}

/// A section as a test writes it.
type Written = (String, Option<String>, Vec<(String, Option<String>)>);

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9-]{0,8}"
}

/// Any text without the line ends of Windows, which are dropped.
fn any_text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('\r', ""))
}

fn file() -> impl Strategy<Value = Vec<Written>> {
    let sub = any_text()
        .prop_map(|text| text.replace('\n', ""))
        .prop_filter("not empty", |text| !text.is_empty());
    let entries = proptest::collection::vec((name(), proptest::option::of(any_text())), 0..5);
    proptest::collection::vec((name(), proptest::option::of(sub), entries), 0..5)
}

/// Writes a file in one of several ways, which `how` chooses.
fn write(sections: &[Written], how: u8) -> String {
    let mut out = String::new();
    let (end, comment) = if how.is_multiple_of(2) {
        ("\n", "")
    } else {
        ("\r\n", " ; [c] \"")
    };
    for (name, sub, entries) in sections {
        let sub = sub
            .as_ref()
            .map(|sub| sub.replace('\\', "\\\\").replace('"', "\\\""));
        let sub = sub.map_or_else(String::new, |sub| format!(" \"{sub}\""));
        out += &format!("{comment}{end}[{name}{sub}]{comment}{end}");
        for (key, value) in entries {
            let value = value.as_ref().map(|value| {
                let escaped = value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n");
                let middle = escaped.len() / 2;
                let is_free =
                    escaped.is_char_boundary(middle) && !escaped[..middle].ends_with('\\');
                match how % 3 {
                    // On two lines, with and without quotes.
                    1 if is_free => format!(
                        " = \"{}\"\\{end}\"{}\"",
                        &escaped[..middle],
                        &escaped[middle..]
                    ),
                    2 if is_free => {
                        format!(" = \"{}\\{end}{}\"", &escaped[..middle], &escaped[middle..])
                    }
                    _ => format!("=\"{escaped}\""),
                }
            });
            out += &format!(" {key}{}{comment}{end}", value.unwrap_or_default());
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn parser_never_panics_and_reports_existing_lines(text in any::<String>()) {
        let (sections, mistakes) = parse(&text);
        let lines = text.split('\n').count();
        let entries = sections.iter().flat_map(|section| section.entries.iter().map(|entry| entry.line));
        for line in sections.iter().map(|section| section.line).chain(entries).chain(mistakes.iter().map(|mistake| mistake.line)) {
            prop_assert!((1..=lines).contains(&usize::try_from(line).unwrap()));
        }
    }

    #[test]
    fn parser_never_panics_on_special_characters(text in "[\\[\\]\"\\\\=#; \\ta\\n\\r-]{0,60}") {
        let (sections, mistakes) = parse(&text);
        let lines: Vec<&str> = text.split('\n').collect();
        let at = |line: u32| lines[usize::try_from(line).unwrap() - 1].trim_start_matches([' ', '\t', '\r']);
        for section in &sections {
            prop_assert!(at(section.line).starts_with('['), "{text:?}");
            for entry in &section.entries {
                prop_assert!(at(entry.line).starts_with(&entry.key), "{text:?}");
            }
        }
        for pair in mistakes.windows(2) {
            prop_assert!(pair[0].line < pair[1].line, "in the order of the file, one for a line: {text:?}");
        }
        let broken = sections.iter().flat_map(|section| &section.entries).filter(|entry| entry.text == Text::Broken).count();
        prop_assert!(broken <= mistakes.len());
    }

    #[test]
    fn written_files_parse_back(sections in file(), how in any::<u8>()) {
        let text = write(&sections, how);
        let (read, mistakes) = parse(&text);
        prop_assert!(mistakes.is_empty(), "{mistakes:?} in {text:?}");
        let lines: Vec<&str> = text.split('\n').collect();
        let read: Vec<Written> = read
            .into_iter()
            .map(|section| {
                let entries = section.entries.into_iter().map(|entry| {
                    let line = lines[usize::try_from(entry.line).unwrap() - 1].trim_start();
                    assert!(line.starts_with(&entry.key), "line {} of {text:?}", entry.line);
                    let value = match entry.text {
                        Text::Bare => None,
                        Text::Is(value) => Some(value),
                        Text::Broken => panic!("broken: {text:?}"),
                    };
                    (entry.key, value)
                });
                (section.name, section.sub, entries.collect())
            })
            .collect();
        prop_assert_eq!(read, sections);
    }

    #[test]
    fn mistakes_and_warnings_quote_no_broken_text(
        secret in "[a-z]{12}",
        before in "[\\[\\]\"\\\\=#; a]{0,4}",
        after in "[\\[\\]\"\\\\=#; a]{0,4}",
    ) {
        let mut file = settings(&format!("[Main]\ntext = \"x\n{before}{secret}{after}\n"));
        file.unknown(&[ALL]);
        let told = file.warnings().join(" ");
        prop_assert!(!told.contains(&secret), "{told}");
        if let Err(err) = file.finish() {
            prop_assert!(!err.to_string().contains(&secret));
        }
    }
}
