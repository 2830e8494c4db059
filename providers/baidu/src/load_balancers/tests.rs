use super::*;

#[test]
fn long_names_are_shortened_and_stay_different() {
    let name = |end: &str| format!("CCE/SVC/c-12345678/{}/{end}", "n".repeat(63));
    let [one, other] = [name("web"), name("mail")].map(shortened);
    assert_eq!((one.len(), other.len()), (LONGEST_NAME, LONGEST_NAME));
    assert_ne!(one, other);
    assert_eq!(
        shortened("CCE/SVC/c-1/default/web".to_owned()),
        "CCE/SVC/c-1/default/web"
    );
    assert_eq!(
        legacy_name("CCE/SVC/c-1/default/web"),
        legacy_name("c-1/default/web")
    );
}
