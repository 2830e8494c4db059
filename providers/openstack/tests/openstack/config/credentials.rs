//! `[Global]`: who we are, what the token is for, TLS.

use std::path::PathBuf;

use provider_openstack::config::{Auth, Domain, Interface, Method, Named, Scope, User};
use secrecy::ExposeSecret;

use super::{ENOUGH, read, with, wrong};

fn auth(keys: &str) -> Auth {
    read(&format!("[Global]\nauth-url = http://keystone\n{keys}\n"))
        .unwrap()
        .auth
}

fn refused(keys: &str) -> String {
    wrong(&format!("[Global]\nauth-url = http://keystone\n{keys}\n"))
}

fn id(id: &str) -> Domain {
    Domain::Id(id.into())
}

fn name(name: &str) -> Domain {
    Domain::Name(name.into())
}

fn password(auth: &Auth) -> (&User, &str) {
    let Method::Password { user, password } = &auth.method else {
        panic!("{:?}", auth.method)
    };
    (user, password.expose_secret())
}

#[test]
fn the_url_of_keystone_is_taken_with_and_without_version_and_slash() {
    for url in [
        "http://k:5000",
        "http://k:5000/",
        "http://k:5000/v3",
        "http://k:5000/v3/",
    ] {
        let read = read(&ENOUGH.replace("http://keystone", url)).unwrap();
        assert_eq!(read.auth.url, "http://k:5000");
    }
    let read =
        read(&ENOUGH.replace("http://keystone", "https://cloud.example/identity/v3")).unwrap();
    assert_eq!(read.auth.url, "https://cloud.example/identity");
}

#[test]
fn a_url_that_is_none_or_of_version_two_is_a_mistake() {
    for url in [
        "keystone:5000",
        "ftp://k",
        "http://",
        "/v3",
        "http://k/v3?x=y",
        "http://me:secret@k",
        "not a url",
    ] {
        let told = wrong(&ENOUGH.replace("http://keystone", url));
        assert_eq!(
            told,
            "cloud.conf:2: [Global] auth-url is no URL of the form https://keystone.example:5000/v3",
            "{url}"
        );
    }
    let told = wrong(&ENOUGH.replace("http://keystone", "http://k/v2.0/"));
    assert_eq!(
        told,
        "cloud.conf:2: [Global] auth-url is of version 2.0, which is gone: leave the version out, or write /v3"
    );
    let told = wrong(&ENOUGH.replace("auth-url = http://keystone\n", "auth-url =\n"));
    assert_eq!(
        told,
        "cloud.conf:2: [Global] auth-url is missing: the URL of Keystone"
    );
}

#[test]
fn user_and_project_by_name_are_in_the_domain_that_is_given_for_both() {
    let auth = auth("username = user\npassword = pass\ndomain-name = local\ntenant-name = demo");
    assert_eq!(
        password(&auth),
        (&User::Name("user".into(), name("local")), "pass")
    );
    assert_eq!(auth.scope, Scope::Project("demo".into(), name("local")));
}

#[test]
fn user_and_project_have_domains_of_their_own_that_go_before_the_one_for_both() {
    let both = "username = u\npassword = x\ntenant-name = p\ndomain-id = both\n";
    let read = auth(&format!("{both}user-domain-id = ud\ntenant-domain-id = pd"));
    assert_eq!(password(&read).0, &User::Name("u".into(), id("ud")));
    assert_eq!(read.scope, Scope::Project("p".into(), id("pd")));
    let read = auth(&format!(
        "{both}user-domain-name = ud\ntenant-domain-name = pd"
    ));
    assert_eq!(password(&read).0, &User::Name("u".into(), name("ud")));
    assert_eq!(read.scope, Scope::Project("p".into(), name("pd")));
}

#[test]
fn an_id_goes_before_a_name() {
    let read = auth(
        "user-id = ui\nusername = un\npassword = x\ntenant-id = pi\ntenant-name = pn\ndomain-id = di\ndomain-name = dn",
    );
    assert_eq!(password(&read).0, &User::Id("ui".into()));
    assert_eq!(read.scope, Scope::ProjectId("pi".into()));
    let read = auth("username = u\npassword = x\ndomain-id = di\ndomain-name = dn");
    assert_eq!(
        (password(&read).0, read.scope.clone()),
        (&User::Name("u".into(), id("di")), Scope::Domain(id("di")))
    );
    let read = auth(
        "application-credential-id = ai\napplication-credential-name = an\napplication-credential-secret = x",
    );
    let Method::ApplicationCredential { credential, .. } = read.method else {
        panic!("{:?}", read.method)
    };
    assert_eq!(credential, Named::Id("ai".into()));
}

#[test]
fn a_token_is_for_the_trust_else_the_project_else_the_domain() {
    let user = "user-id = u\npassword = x\n";
    let table = [
        (
            "trust-id = t\ntenant-id = p\ndomain-id = d",
            Scope::Trust("t".into()),
        ),
        ("tenant-id = p\ndomain-id = d", Scope::ProjectId("p".into())),
        (
            "tenant-name = p\ndomain-id = d",
            Scope::Project("p".into(), id("d")),
        ),
        (
            "tenant-name = p\ntenant-domain-name = d",
            Scope::Project("p".into(), name("d")),
        ),
        ("domain-id = d", Scope::Domain(id("d"))),
        ("domain-name = d", Scope::Domain(name("d"))),
        ("", Scope::None),
    ];
    for (keys, scope) in table {
        assert_eq!(auth(&format!("{user}{keys}")).scope, scope, "{keys}");
    }
}

#[test]
fn a_trustee_takes_the_place_of_user_and_password() {
    let read =
        auth("user-id = u\npassword = x\ntrust-id = t\ntrustee-id = te\ntrustee-password = tp");
    assert_eq!(password(&read), (&User::Id("te".into()), "tp"));
    assert_eq!(read.scope, Scope::Trust("t".into()));
    let read = auth("user-id = u\npassword = x\ntrust-id = t");
    assert_eq!(
        password(&read),
        (&User::Id("u".into()), "x"),
        "else they count themselves"
    );
    let read = auth("user-id = u\ntrust-id = t\ntrustee-password = tp");
    assert_eq!(password(&read), (&User::Id("u".into()), "tp"));
    let told = refused("user-id = u\npassword = x\ntrustee-id = te\ntrustee-password = tp");
    assert_eq!(
        told,
        "cloud.conf:5: [Global] trustee-id needs trust-id; cloud.conf:6: [Global] trustee-password needs trust-id"
    );
}

#[test]
fn an_application_credential_has_no_scope_and_one_by_name_has_a_user() {
    let read = auth(
        "application-credential-id = a\napplication-credential-secret = x\ntenant-id = p\ndomain-name = d",
    );
    let Method::ApplicationCredential { credential, secret } = &read.method else {
        panic!("{:?}", read.method)
    };
    assert_eq!(
        (credential, secret.expose_secret()),
        (&Named::Id("a".into()), "x")
    );
    assert_eq!(read.scope, Scope::None);
    let by_name = "application-credential-name = a\napplication-credential-secret = x\n";
    let credential = |keys: &str| match auth(&format!("{by_name}{keys}")).method {
        Method::ApplicationCredential { credential, .. } => credential,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        credential("user-id = u"),
        Named::Name("a".into(), User::Id("u".into()))
    );
    let user = User::Name("u".into(), name("d"));
    assert_eq!(
        credential("username = u\ndomain-name = d"),
        Named::Name("a".into(), user)
    );
    let told = refused(by_name);
    assert_eq!(
        told,
        "cloud.conf: [Global] username is missing: there is no user-id either"
    );
    let told =
        refused("application-credential-id = a\ntrust-id = t\napplication-credential-secret = x");
    let why = "is not possible with an application credential, which has its own scope";
    assert_eq!(told, format!("cloud.conf:4: [Global] trust-id {why}"));
}

#[test]
fn half_of_an_application_credential_is_a_mistake() {
    assert_eq!(
        refused("application-credential-id = a"),
        "cloud.conf: [Global] application-credential-secret is missing: there is no other credential"
    );
    assert_eq!(
        refused("application-credential-secret = x"),
        "cloud.conf: [Global] application-credential-id is missing: its secret is there"
    );
}

#[test]
fn a_token_takes_the_place_of_every_other_credential_and_keeps_its_scope() {
    let read = auth(
        "token = t\nuser-id = u\npassword = x\napplication-credential-id = a\napplication-credential-secret = x\ntenant-id = p",
    );
    let Method::Token(token) = &read.method else {
        panic!("{:?}", read.method)
    };
    assert_eq!(
        (token.expose_secret(), read.scope),
        ("t", Scope::ProjectId("p".into()))
    );
    // Domains count only where a project has a name.
    assert_eq!(
        auth("token = t\nusername = u\ndomain-name = d").scope,
        Scope::None
    );
    assert_eq!(
        auth("token = t\ntenant-name = p\ndomain-name = d").scope,
        Scope::Project("p".into(), name("d"))
    );
}

#[test]
fn an_application_credential_goes_before_a_password() {
    let read = auth(
        "user-id = u\npassword = x\napplication-credential-id = a\napplication-credential-secret = y",
    );
    assert!(matches!(read.method, Method::ApplicationCredential { .. }));
}

#[test]
fn what_is_missing_is_told_with_what_it_is_for() {
    assert_eq!(
        refused(""),
        "cloud.conf: [Global] password is missing: there is no other credential; \
         cloud.conf: [Global] username is missing: there is no user-id either"
    );
    assert_eq!(
        refused("user-id = u"),
        "cloud.conf: [Global] password is missing: there is no other credential"
    );
    assert_eq!(
        refused("username = u\npassword = x\ntenant-name = p"),
        "cloud.conf: [Global] user-domain-name is missing: username is a name in a domain; domain-name is for both; \
         cloud.conf: [Global] tenant-domain-name is missing: tenant-name is a name in a domain; domain-name is for both"
    );
}

#[test]
fn the_kind_of_endpoint_has_two_names_in_any_case() {
    let interface = |text: &str| {
        read(&format!("{ENOUGH}os-endpoint-type = {text}\n")).map(|config| config.interface)
    };
    for (texts, expected) in [
        (["public", "publicURL", "PUBLIC", ""], Interface::Public),
        (
            ["internal", "internalURL", "InternalUrl", "INTERNAL"],
            Interface::Internal,
        ),
        (["admin", "adminURL", "Admin", "adminurl"], Interface::Admin),
    ] {
        for text in texts {
            assert_eq!(interface(text), Ok(expected), "{text}");
        }
    }
    assert_eq!(with("").interface, Interface::Public);
    assert_eq!(
        interface("private"),
        Err("cloud.conf:6: [Global] os-endpoint-type: \"private\" is not one of public, internal, admin, publicURL, \
             internalURL, adminURL"
            .into())
    );
}

#[test]
fn the_region_is_taken_as_it_stands() {
    assert_eq!(
        with("[Global]\nregion = RegionOne\n").region.as_deref(),
        Some("RegionOne")
    );
    assert_eq!(with("[Global]\nregion =\n").region, None);
}

#[test]
fn certificates_are_files_that_can_be_read_and_the_clients_has_its_key() {
    let here = file!().rsplit('/').next().unwrap();
    let dir = std::env::temp_dir().join(format!("ccm-openstack-tls-{}-{here}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let [ca, cert, key] = ["ca", "cert", "key"].map(|name| {
        let path = dir.join(name);
        std::fs::write(&path, "").unwrap();
        path.to_str().unwrap().to_owned()
    });
    let config = read(&format!(
        "{ENOUGH}ca-file = {ca}\ncert-file = {cert}\nkey-file = {key}\n"
    ))
    .unwrap();
    let paths = [ca, cert.clone(), key.clone()].map(PathBuf::from);
    assert_eq!(config.tls.roots.as_ref(), Some(&paths[0]));
    assert_eq!(
        config.tls.identity,
        Some((paths[1].clone(), paths[2].clone()))
    );
    assert_eq!(config.files, paths, "followed, because they are renewed");
    let told = wrong(&format!("{ENOUGH}cert-file = {cert}\n"));
    assert_eq!(told, "cloud.conf:6: [Global] cert-file needs key-file");
    let told = wrong(&format!("{ENOUGH}key-file = {key}\n"));
    assert_eq!(told, "cloud.conf:6: [Global] key-file needs cert-file");
    let told = wrong(&format!("{ENOUGH}ca-file = /nowhere/ca.pem\n"));
    assert!(
        told.starts_with("cloud.conf:6: [Global] ca-file cannot be read: /nowhere/ca.pem: "),
        "{told}"
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn certificates_are_checked_unless_exactly_true_says_that_they_are_not() {
    let insecure = |line: &str| with(&format!("[Global]\n{line}\n")).tls.insecure;
    assert!(insecure("tls-insecure = true"));
    assert!(insecure("tls-insecure = \"true\""));
    for line in [
        "",
        "tls-insecure = false",
        "tls-insecure = yes",
        "tls-insecure = True",
        "tls-insecure = 1",
        "tls-insecure =",
    ] {
        assert!(!insecure(line), "{line}");
    }
    assert!(wrong(&format!("{ENOUGH}tls-insecure\n")).contains("tls-insecure needs a value"));
}

#[test]
fn no_secret_is_in_debug() {
    for keys in [
        "user-id = u\npassword = s3cret",
        "user-id = u\npassword = x\ntrust-id = t\ntrustee-password = s3cret",
        "application-credential-id = a\napplication-credential-secret = s3cret",
        "token = s3cret",
    ] {
        let read = read(&format!("[Global]\nauth-url = http://keystone\n{keys}\n")).unwrap();
        assert!(!format!("{read:?}").contains("s3cret"), "{keys}");
    }
}
