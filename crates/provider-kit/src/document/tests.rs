use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct Inner {
    name: String,
    size: Option<u32>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct File {
    vcn: Option<String>,
    is_on: bool,
    rate: Option<f64>,
    inner: Inner,
    list: Vec<Inner>,
    tags: BTreeMap<String, String>,
    compartment: String,
}

fn document(text: &str) -> Result<Document> {
    Document::of(&ConfigFile {
        path: "f".into(),
        text: text.into(),
    })
}

fn read(text: &str) -> (File, Vec<String>) {
    document(text).unwrap().read_with_warnings().unwrap()
}

#[test]
fn keys_match_without_regard_to_case_and_the_exact_spelling_wins() {
    let table = [
        ("VCN: a\n", "a"),
        ("vcn: a\nVCN: b\n", "a"),
        ("VCN: b\nvcn: a\n", "a"),
        ("VCN: a\nVcn: b\n", "b"),
        ("{\"Vcn\": \"a\"}", "a"),
        ("vcn: null\nVCN: a\n", "a"),
        ("VCN: a\nvcn: null\n", "a"),
    ];
    for (text, vcn) in table {
        assert_eq!(read(text).0.vcn.as_deref(), Some(vcn), "{text}");
        assert_eq!(read(text).1, Vec::<String>::new(), "{text}");
    }
    assert_eq!(
        read("INNER: {NAME: a}\nList: [{Name: b}]\n").0.inner.name,
        "a"
    );
    assert_eq!(
        read("tags: {A: x, a: y}\n").0.tags.len(),
        2,
        "keys of the user are no settings"
    );
}

#[test]
fn scalars_are_texts_where_a_text_is_expected() {
    let (file, _) = read(
        "vcn: 5\ntags: {costcenter: 1234, on: true}\ninner: {name: 1.5}\nisOn: yes\nrate: 3\n",
    );
    assert_eq!(file.vcn.as_deref(), Some("5"));
    assert_eq!(
        read("# é\nvcn: n\nisOn: on\n").0,
        File {
            vcn: Some("n".to_owned()),
            is_on: true,
            ..File::default()
        }
    );
    assert_eq!(
        (&*file.tags["costcenter"], &*file.tags["on"]),
        ("1234", "true")
    );
    assert_eq!(
        (&*file.inner.name, file.is_on, file.rate),
        ("1.5", true, Some(3.0))
    );
}

#[test]
fn wrong_type_names_file_line_column_key_and_what_is_accepted() {
    let table = [
        (
            "isOn: s3cret\n",
            "f:1:7: isOn must be true or false, not a text",
        ),
        (
            "inner: n\n",
            "f:1:8: inner must be keys with values, not a text",
        ),
        (
            "tags: s3cret\n",
            "f:1:7: tags must be keys with values, not a text",
        ),
        (
            "a: 1\nlist:\n  - name: [s3cret]\n",
            "f:3:11: list[0].name must be a text, not a list",
        ),
        (
            "inner:\n  size: s3cret\n",
            "f:2:9: inner.size must be a whole number from 0 to 4294967295, not a text",
        ),
        (
            "inner:\n  SIZE: -1\n",
            "f:2:9: inner.size must be a whole number from 0 to 4294967295",
        ),
        (
            "{\n \"rate\": \"s3cret\"}",
            "f:2:10: rate must be a number, not a text",
        ),
    ];
    for (text, error) in table {
        let found = document(text)
            .unwrap()
            .read::<File>()
            .unwrap_err()
            .to_string();
        assert_eq!(found, error, "{text}");
    }
}

#[test]
fn unknown_keys_are_named_with_their_place() {
    let warnings = read("compartmant: a\ninner:\n  nam: a\n  zebra: s3cret\n").1;
    let expected = [
        "f:1:14: unknown key compartmant: did you mean compartment?",
        "f:3:8: unknown key inner.nam: nothing reads it",
        "f:4:10: unknown key inner.zebra: nothing reads it",
    ];
    assert_eq!(
        BTreeMap::from_iter(warnings.iter().map(|warning| (&**warning, ()))),
        BTreeMap::from(expected.map(|text| (text, ())))
    );
}

#[test]
fn broken_text_is_reported_by_its_place_alone() {
    for broken in ["a: \"s3cret", "a: s3: s3cret\n", "- s3cret\n"] {
        let error = document(broken).err().expect("it is broken").to_string();
        assert!(
            error.starts_with("f:") && !error.contains("s3cret"),
            "{error}"
        );
    }
}

#[test]
fn keys_of_a_type_are_those_of_its_declaration() {
    assert_eq!(
        fields::<File>(),
        [
            "vcn",
            "isOn",
            "rate",
            "inner",
            "list",
            "tags",
            "compartment"
        ]
    );
    let mut document = document("VCN: a\nother: b\n").unwrap();
    let unknown = document.spell(fields::<File>());
    assert_eq!(unknown[0].key, "other");
    assert_eq!(
        document.values().keys().collect::<Vec<_>>(),
        ["other", "vcn"]
    );
}
