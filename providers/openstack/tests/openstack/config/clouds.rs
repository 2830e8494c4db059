//! `clouds.yaml` and its companions.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use provider_openstack::config::{Config, Domain, Interface, Method, Named, Scope, User};
use provider_openstack::keys::{CREATE_MONITOR, MONITOR_DELAY};
use secrecy::ExposeSecret;

use super::setup;

/// A directory of one test.
struct Directory(PathBuf);

impl Directory {
    fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "ccm-clouds-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let directory = Self(std::env::temp_dir().join(name));
        for (name, text) in files {
            let path = directory.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        directory
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Parses `[Global]` with these keys, which uses `clouds.yaml` of this directory.
    fn read(&self, keys: &str) -> Result<Config, String> {
        let text = format!(
            "[Global]\nuse-clouds = yes\nclouds-file = {}\n{keys}\n",
            self.path("clouds.yaml")
        );
        Config::read(&setup(&text, &[])).map_err(|err| {
            assert!(
                err.is_invalid() && !err.to_string().contains("s3cret"),
                "{err}"
            );
            err.to_string().replace(self.0.to_str().unwrap(), "/dir")
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file with a single cloud, which is sufficient.
const ENOUGH: &str = "clouds:\n  k8s:\n    auth:\n      auth_url: http://k/v3\n      user_id: u\n      password: s3cret\n      \
                      project_id: p\n";

fn password(config: &Config) -> (&User, &str) {
    let Method::Password { user, password } = &config.auth.method else {
        panic!("{:?}", config.auth.method)
    };
    (user, password.expose_secret())
}

#[test]
fn what_the_file_itself_says_goes_before_clouds_yaml_which_says_the_rest() {
    let clouds = "clouds:\n  default:\n    auth:\n      domain_name: default\n      auth_url: http://not-auth.url\n      \
                  project_name: demo\n      username: admin\n      user_id: user\n    region_name: RegionOne\n    \
                  identity_api_version: 3\n";
    let directory = Directory::new(&[("clouds.yaml", clouds)]);
    let config = directory
        .read("auth-url = http://auth.url\npassword = mypass\n[LoadBalancer]\ncreate-monitor = yes\nmonitor-delay = 1m")
        .unwrap();
    assert_eq!(config.auth.url, "http://auth.url");
    assert_eq!(password(&config), (&User::Id("user".into()), "mypass"));
    assert_eq!(
        config.auth.scope,
        Scope::Project("demo".into(), Domain::Name("default".into()))
    );
    assert_eq!(config.region.as_deref(), Some("RegionOne"));
    let balancers = config.balancers.unwrap();
    assert_eq!(
        (
            balancers.flag(&CREATE_MONITOR),
            balancers.get(&MONITOR_DELAY).unwrap().as_secs()
        ),
        (true, 60)
    );
    let trust = directory
        .read("password = mypass\ntrust-id = mytrust")
        .unwrap();
    assert_eq!(trust.auth.scope, Scope::Trust("mytrust".into()));
}

#[test]
fn every_field_of_an_entry_is_read() {
    let files = [("ca", ""), ("cert", ""), ("key", "")];
    let certificates = Directory::new(&files);
    let [ca, cert, key] = files.map(|(name, _)| certificates.path(name));
    let clouds = format!(
        "clouds:\n  k8s:\n    auth:\n      auth_url: https://k/v3\n      username: u\n      password: s3cret\n      \
         project_name: p\n      user_domain_name: ud\n      project_domain_id: pd\n      domain_id: d\n    \
         region_name: R\n    endpoint_type: internalURL\n    cacert: {ca}\n    cert: {cert}\n    key: {key}\n"
    );
    let directory = Directory::new(&[("clouds.yaml", clouds.as_str())]);
    let config = directory.read("").unwrap();
    assert_eq!(config.auth.url, "https://k");
    assert_eq!(
        password(&config),
        (&User::Name("u".into(), Domain::Name("ud".into())), "s3cret")
    );
    assert_eq!(
        config.auth.scope,
        Scope::Project("p".into(), Domain::Id("pd".into()))
    );
    assert_eq!(
        (config.region.as_deref(), config.interface),
        (Some("R"), Interface::Internal)
    );
    let paths = [ca, cert, key].map(PathBuf::from);
    assert_eq!(config.tls.roots.as_ref(), Some(&paths[0]));
    assert_eq!(
        config.tls.identity,
        Some((paths[1].clone(), paths[2].clone()))
    );
    let mut files = vec![PathBuf::from(directory.path("clouds.yaml"))];
    files.extend(paths);
    assert_eq!(config.files, files);

    let other = clouds
        .replace("domain_id: d\n", "domain_name: dn\n")
        .replace("user_domain_name: ud", "user_domain_id: ui");
    let other = other
        .replace("project_domain_id: pd", "project_domain_name: pn")
        .replace("endpoint_type: internalURL", "interface: admin");
    let config = Directory::new(&[("clouds.yaml", &other)]).read("").unwrap();
    assert_eq!(
        password(&config).0,
        &User::Name("u".into(), Domain::Id("ui".into()))
    );
    assert_eq!(
        config.auth.scope,
        Scope::Project("p".into(), Domain::Name("pn".into()))
    );
    assert_eq!(config.interface, Interface::Admin);
}

#[test]
fn application_credentials_and_tokens_may_stand_in_an_entry() {
    let with = |auth: &str| {
        let clouds = format!("clouds:\n  k8s:\n    auth: {{auth_url: 'http://k', {auth}}}\n");
        Directory::new(&[("clouds.yaml", clouds.as_str())])
            .read("")
            .unwrap()
            .auth
    };
    let by_id =
        with("application_credential_id: a, application_credential_secret: s3cret, project_id: p");
    let Method::ApplicationCredential { credential, secret } = &by_id.method else {
        panic!("{by_id:?}")
    };
    assert_eq!(
        (credential, secret.expose_secret(), by_id.scope),
        (&Named::Id("a".into()), "s3cret", Scope::None)
    );
    let by_name =
        with("application_credential_name: a, application_credential_secret: s3cret, user_id: u");
    let Method::ApplicationCredential { credential, .. } = &by_name.method else {
        panic!("{by_name:?}")
    };
    assert_eq!(credential, &Named::Name("a".into(), User::Id("u".into())));
    let token = with("token: s3cret, username: u, password: x, project_id: p");
    assert!(matches!(&token.method, Method::Token(token) if token.expose_secret() == "s3cret"));
    assert_eq!(token.scope, Scope::ProjectId("p".into()));
}

#[test]
fn a_credential_of_the_file_goes_before_another_kind_of_one_in_clouds_yaml() {
    let clouds = "clouds: {k8s: {auth: {auth_url: 'http://k', application_credential_id: a, \
                  application_credential_secret: s, token: t, user_id: u, project_id: p}}}";
    let directory = Directory::new(&[("clouds.yaml", clouds)]);
    let config = directory.read("password = mine").unwrap();
    assert_eq!(password(&config), (&User::Id("u".into()), "mine"));
    // A name of the file's also goes before an id of the other.
    let config = directory
        .read("password = mine\nusername = n\ndomain-id = d")
        .unwrap();
    assert_eq!(
        password(&config).0,
        &User::Name("n".into(), Domain::Id("d".into()))
    );
}

#[test]
fn the_only_cloud_is_meant_unless_one_is_named_in_the_file_or_the_environment() {
    let two = "clouds:\n  a: {auth: {auth_url: 'http://a', user_id: u, password: x, project_id: p}}\n  \
               b: {auth: {auth_url: 'http://b', user_id: u, password: x, project_id: p}}\n";
    let directory = Directory::new(&[("clouds.yaml", two)]);
    let file = directory.path("clouds.yaml");
    let read = |keys: &str, environment: &[(&str, &str)]| {
        let text = format!("[Global]\nuse-clouds\n{keys}\n");
        Config::read(&setup(&text, environment))
            .map(|config| config.auth.url)
            .map_err(|err| err.to_string())
    };
    let both = format!("clouds-file = {file}\ncloud = a");
    assert_eq!(
        read(
            &both,
            &[("OS_CLOUD", "b"), ("OS_CLIENT_CONFIG_FILE", "/nowhere")]
        ),
        Ok("http://a".into())
    );
    assert_eq!(
        read("", &[("OS_CLOUD", "b"), ("OS_CLIENT_CONFIG_FILE", &file)]),
        Ok("http://b".into())
    );
    let several = read("", &[("OS_CLOUD", ""), ("OS_CLIENT_CONFIG_FILE", &file)]).unwrap_err();
    assert!(
        several.contains("there are several clouds (a, b); `cloud` or OS_CLOUD must name one"),
        "{several}"
    );
    let none = read("cloud = c", &[("OS_CLIENT_CONFIG_FILE", &file)]).unwrap_err();
    assert!(
        none.contains("there is no cloud \"c\"; there are: a, b"),
        "{none}"
    );
}

#[test]
fn without_use_clouds_nothing_of_it_counts() {
    let directory = Directory::new(&[("clouds.yaml", ENOUGH)]);
    let file = directory.path("clouds.yaml");
    let text = format!("{}clouds-file = {file}\ncloud = k8s\n", super::ENOUGH);
    let config = Config::read(&setup(
        &text,
        &[("OS_CLOUD", "k8s"), ("OS_CLIENT_CONFIG_FILE", &file)],
    ))
    .unwrap();
    assert_eq!(
        (config.auth.url.as_str(), config.files.len()),
        ("http://keystone", 0)
    );
}

#[test]
fn it_is_looked_for_in_the_users_directory_under_both_names() {
    for name in ["clouds.yaml", "clouds.yml"] {
        let home = Directory::new(&[(&format!(".config/openstack/{name}"), ENOUGH)]);
        let config = Config::read(&setup(
            "[Global]\nuse-clouds\n",
            &[("HOME", &home.path(""))],
        ))
        .unwrap();
        assert_eq!(config.auth.url, "http://k");
        assert_eq!(
            config.files,
            [Path::new(&home.path(&format!(".config/openstack/{name}")))]
        );
    }
    let err = Config::read(&setup("[Global]\nuse-clouds\n", &[("HOME", "/nowhere")]))
        .unwrap_err()
        .to_string();
    assert!(
        err.contains("no clouds.yaml: neither clouds-file nor OS_CLIENT_CONFIG_FILE is set"),
        "{err}"
    );
}

#[test]
fn secrets_and_profiles_are_merged_in_and_the_stronger_one_counts() {
    let clouds = "clouds:\n  k8s:\n    profile: acme\n    region_name: ''\n    auth: {user_id: u, password: weak, project_id: p}\n";
    let public = "public-clouds:\n  acme:\n    region_name: R\n    auth: {auth_url: 'http://acme', user_id: nobody}\n";
    let secure = "clouds:\n  k8s:\n    auth: {password: s3cret}\n  other: {}\n";
    let directory = Directory::new(&[
        ("clouds.yaml", clouds),
        ("clouds-public.yaml", public),
        ("secure.yaml", secure),
    ]);
    let config = directory.read("").unwrap();
    assert_eq!(
        (config.auth.url.as_str(), config.region.as_deref()),
        ("http://acme", Some("R"))
    );
    assert_eq!(password(&config), (&User::Id("u".into()), "s3cret"));
    assert_eq!(config.files.len(), 3, "all of them are followed");
    let alone = Directory::new(&[("clouds.yaml", "clouds: {}"), ("secure.yml", ENOUGH)]);
    assert_eq!(
        alone.read("").unwrap().auth.url,
        "http://k",
        "a cloud that is only in secure.yaml"
    );
    for nothing in ["", "# none yet\n", "clouds:\n"] {
        let directory = Directory::new(&[("clouds.yaml", ENOUGH), ("secure.yaml", nothing)]);
        assert_eq!(
            directory.read("").unwrap().auth.url,
            "http://k",
            "a secure.yaml with nothing in it: {nothing:?}"
        );
    }
    let lost = Directory::new(&[("clouds.yaml", clouds)])
        .read("")
        .unwrap_err();
    assert!(
        lost.contains(
            "/dir/clouds.yaml: the profile \"acme\" of \"k8s\" is in no clouds-public.yaml"
        ),
        "{lost}"
    );
}

#[test]
fn a_file_that_cannot_be_understood_names_itself_and_the_place_and_shows_nothing() {
    let table = [
        (
            "clouds: {k8s: {auth: \"s3cret",
            "/dir/clouds.yaml: no valid YAML",
        ),
        (
            "s3cret",
            "/dir/clouds.yaml: there is no mapping `clouds` in it",
        ),
        ("", "/dir/clouds.yaml: there is no mapping `clouds` in it"),
        (
            "clouds: [s3cret]",
            "/dir/clouds.yaml: there is no mapping `clouds` in it",
        ),
        ("clouds: {}", "/dir/clouds.yaml: there are no clouds in it"),
    ];
    for (text, expected) in table {
        let told = Directory::new(&[("clouds.yaml", text)])
            .read("")
            .unwrap_err();
        assert!(told.contains(expected), "{text}: {told}");
    }
    let told = Directory::new(&[]).read("").unwrap_err();
    assert!(told.contains("cannot read /dir/clouds.yaml: "), "{told}");
}

#[test]
fn a_number_where_a_text_belongs_is_a_mistake_because_yaml_would_change_it() {
    let clouds = "clouds: {k8s: {auth: {auth_url: 'http://k', user_id: u, password: 0123, project_id: [p]}}}";
    let told = Directory::new(&[("clouds.yaml", clouds)])
        .read("")
        .unwrap_err();
    assert!(
        told.contains(
            "/dir/clouds.yaml: clouds.k8s: auth.password must be text (put it in quotes)"
        ),
        "{told}"
    );
    assert!(
        told.contains(
            "/dir/clouds.yaml: clouds.k8s: auth.project_id must be text (put it in quotes)"
        ),
        "{told}"
    );
    assert!(!told.contains("password is missing"), "{told}");
    let clouds = ENOUGH.to_owned() + "    interface: private\n";
    let told = Directory::new(&[("clouds.yaml", &clouds)])
        .read("")
        .unwrap_err();
    assert!(
        told.contains("clouds.k8s: interface \"private\" is not one of public, internal, admin"),
        "{told}"
    );
}
