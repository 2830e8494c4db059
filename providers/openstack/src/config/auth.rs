//! The credential: `[Global]`, completed from `clouds.yaml`.

use std::path::PathBuf;

use cloud_provider::Environment;
use provider_kit::declared::Value;
use provider_kit::gcfg::{GitConfigSettings, Key};
use provider_kit::transport::has_valid_port;
use secrecy::SecretString;

use super::{Auth, Domain, Domain as By, Interface, Method, Named, Scope, Tls, User};
use crate::clouds_yaml::Clouds;
use crate::keys::*;

const KEYSTONE: &str = "is no URL of the form https://keystone.example:5000/v3";
const APPLICATION: [&Key<String>; 3] = [
    &APPLICATION_CREDENTIAL_ID,
    &APPLICATION_CREDENTIAL_NAME,
    &APPLICATION_CREDENTIAL_SECRET,
];

/// `[Global]`, while it is read.
pub(super) struct Global<'a> {
    file: &'a mut GitConfigSettings,
    clouds: Clouds,
    /// If set, the cloud is never called, and nothing is missing.
    is_offline: bool,
}

impl<'a> Global<'a> {
    pub(super) fn of(file: &'a mut GitConfigSettings, environment: &Environment) -> Self {
        let set = |name| environment.get(name).filter(|value| !value.is_empty());
        let is_offline = environment.is_offline();
        let named = file.get(&CLOUDS_FILE);
        let cloud = file.get(&CLOUD);
        if !file.flag(&USE_CLOUDS) {
            for key in [&CLOUDS_FILE, &CLOUD]
                .into_iter()
                .zip([&named, &cloud])
                .filter(|(_, set)| set.is_some())
            {
                file.warn(key.0, "has no effect without use-clouds");
            }
            return Self {
                file,
                clouds: Clouds::default(),
                is_offline,
            };
        }
        if is_offline {
            return Self {
                file,
                clouds: Clouds::default(),
                is_offline,
            };
        }
        let named = named
            .as_deref()
            .or_else(|| set(OS_CLIENT_CONFIG_FILE.key()));
        let cloud = cloud.as_deref().or_else(|| set(OS_CLOUD.key()));
        Self {
            file,
            clouds: Clouds::read(named, cloud, environment),
            is_offline,
        }
    }

    pub(super) fn auth(&mut self) -> Auth {
        let url = self.url();
        let domain = self.named(&DOMAIN_ID, &DOMAIN_NAME, "auth.domain_");
        let of_user = self.named(&USER_DOMAIN_ID, &USER_DOMAIN_NAME, "auth.user_domain_");
        let method = self.method(of_user.or_else(|| domain.clone()));
        let scope = self.scope(&method, domain);
        Auth { url, method, scope }
    }

    pub(super) fn region(&mut self) -> Option<String> {
        self.text(&REGION, "region_name")
    }

    pub(super) fn interface(&mut self) -> Interface {
        if self.file.is_set(&OS_ENDPOINT_TYPE) {
            return self.file.get(&OS_ENDPOINT_TYPE).unwrap_or_default();
        }
        let (path, text) = match self.clouds.text("endpoint_type") {
            Some(text) => ("endpoint_type", text),
            None => (
                "interface",
                self.clouds
                    .text("interface")
                    .unwrap_or_else(|| "public".to_owned()),
            ),
        };
        Interface::KIND.parse(&text).unwrap_or_else(|| {
            self.clouds.refuse(
                path,
                &format!("{text:?} is not {}", Interface::KIND.accepted()),
            );
            Interface::default()
        })
    }

    pub(super) fn tls(&mut self) -> Tls {
        let roots = self.path(&CA_FILE, "cacert");
        let cert = self.path(&CERT_FILE, "cert");
        let key = self.path(&KEY_FILE, "key");
        match (&cert, &key) {
            (Some(_), None) => self.file.refuse(&CERT_FILE, "needs key-file"),
            (None, Some(_)) => self.file.refuse(&KEY_FILE, "needs cert-file"),
            _ => {}
        }
        Tls {
            roots,
            identity: cert.zip(key),
            insecure: self.file.get(&TLS_INSECURE).unwrap_or_default(),
        }
    }

    /// Ends the reading, and returns the other files that were read.
    pub(super) fn finish(self) -> Vec<PathBuf> {
        for mistake in self.clouds.mistakes {
            self.file.mistake(mistake);
        }
        self.clouds.files
    }

    /// Returns Keystone's URL, without its version.
    fn url(&mut self) -> String {
        let Some(url) = self.text(&AUTH_URL, "auth.auth_url") else {
            if self.is_offline {
                return "http://keystone.invalid".to_owned();
            }
            self.missing(&AUTH_URL, "the URL of Keystone");
            return String::new();
        };
        let url = url.trim().trim_end_matches('/');
        let is_url = url.parse::<http::Uri>().is_ok_and(|url| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.query().is_none() && has_valid_port(&url)
                // Messages name it: nothing secret may be in it.
                && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        });
        if !is_url {
            self.file.refuse(&AUTH_URL, KEYSTONE);
        } else if url.ends_with("/v2.0") {
            self.file.refuse(
                &AUTH_URL,
                "is of version 2.0, which is gone: leave the version out, or write /v3",
            );
        }
        url.strip_suffix("/v3")
            .unwrap_or(url)
            .trim_end_matches('/')
            .to_owned()
    }

    /// Returns the token if there is one, else the application credential, else the password; the file itself goes before
    /// `clouds.yaml`.
    fn method(&mut self, domain: Option<Domain>) -> Method {
        let is_set = |key: &Key<String>| self.file.is_set(key);
        let mut token = is_set(&TOKEN);
        let mut application = APPLICATION.into_iter().any(is_set);
        if !token && !application && !is_set(&PASSWORD) && !is_set(&TRUSTEE_PASSWORD) {
            token = self.clouds.text("auth.token").is_some();
            application = self
                .clouds
                .text("auth.application_credential_secret")
                .is_some();
        }
        if token {
            return Method::Token(self.secret(&TOKEN, "auth.token"));
        }
        if !application {
            return self.password(domain);
        }
        let path = "auth.application_credential_";
        let credential = match self.named(
            &APPLICATION_CREDENTIAL_ID,
            &APPLICATION_CREDENTIAL_NAME,
            path,
        ) {
            Some(By::Name(name)) => Named::Name(name, self.user(domain)),
            Some(By::Id(id)) => Named::Id(id),
            None => Named::Id(self.missing(&APPLICATION_CREDENTIAL_ID, "its secret is there")),
        };
        let secret = self.secret(
            &APPLICATION_CREDENTIAL_SECRET,
            "auth.application_credential_secret",
        );
        Method::ApplicationCredential { credential, secret }
    }

    /// Returns the password of a user, or of a trustee in its place.
    fn password(&mut self, domain: Option<Domain>) -> Method {
        for key in [&TRUSTEE_ID, &TRUSTEE_PASSWORD] {
            if self.file.is_set(key) && !self.file.is_set(&TRUST_ID) {
                self.file.refuse(key, "needs trust-id");
            }
        }
        let password = match self.file.is_set(&TRUSTEE_PASSWORD) {
            true => self.secret(&TRUSTEE_PASSWORD, ""),
            false => self.secret(&PASSWORD, "auth.password"),
        };
        let user = self
            .file
            .get(&TRUSTEE_ID)
            .map(User::Id)
            .unwrap_or_else(|| self.user(domain));
        Method::Password { user, password }
    }

    fn user(&mut self, domain: Option<Domain>) -> User {
        match self.named(&USER_ID, &USERNAME, "auth.user") {
            Some(By::Name(name)) => {
                User::Name(name, self.required(domain, &USER_DOMAIN_NAME, "username"))
            }
            Some(By::Id(id)) => User::Id(id),
            None => User::Id(self.missing(&USERNAME, "there is no user-id either")),
        }
    }

    fn scope(&mut self, method: &Method, domain: Option<Domain>) -> Scope {
        let is_application = matches!(method, Method::ApplicationCredential { .. });
        if let Some(trust) = self.file.get(&TRUST_ID) {
            if is_application {
                self.file.refuse(
                    &TRUST_ID,
                    "is not possible with an application credential, which has its own scope",
                );
            }
            return Scope::Trust(trust);
        }
        if is_application {
            return Scope::None;
        }
        let of_project = self.named(
            &TENANT_DOMAIN_ID,
            &TENANT_DOMAIN_NAME,
            "auth.project_domain_",
        );
        match (
            self.named(&TENANT_ID, &TENANT_NAME, "auth.project_"),
            domain,
        ) {
            (Some(By::Id(id)), _) => Scope::ProjectId(id),
            (Some(By::Name(name)), domain) => Scope::Project(
                name,
                self.required(of_project.or(domain), &TENANT_DOMAIN_NAME, "tenant-name"),
            ),
            // The domain of a user, which is ignored with a token.
            (None, Some(domain)) if !matches!(method, Method::Token(_)) => Scope::Domain(domain),
            (None, _) => Scope::None,
        }
    }
}

/// Values of the file, else of `clouds.yaml`.
impl Global<'_> {
    fn text(&mut self, key: &Key<String>, path: &str) -> Option<String> {
        if self.file.is_set(key) {
            self.file.get(key)
        } else {
            self.clouds.text(path)
        }
    }

    /// Returns the ID, else the name. Those of the file take precedence over those of `clouds.yaml`, whose fields begin
    /// with `path`.
    fn named(&mut self, id: &Key<String>, name: &Key<String>, path: &str) -> Option<By> {
        let id = self.file.get(id).map(By::Id);
        let name = self.file.get(name).map(By::Name);
        if id.is_some() || name.is_some() {
            return id.or(name);
        }
        // `domain_id` and `domain_name`, but `user_id` and `username`.
        let in_clouds = self
            .clouds
            .text(&format!("{}_id", path.trim_end_matches('_')))
            .map(By::Id);
        in_clouds.or_else(|| self.clouds.text(&format!("{path}name")).map(By::Name))
    }

    fn required(&mut self, domain: Option<Domain>, key: &Key<String>, of: &str) -> Domain {
        let why = format!("{of} is a name in a domain; domain-name is for both");
        domain.unwrap_or_else(|| Domain::Name(self.missing(key, &why)))
    }

    fn secret(&mut self, key: &Key<String>, path: &str) -> SecretString {
        let text = self.text(key, path);
        SecretString::from(
            text.unwrap_or_else(|| self.missing(key, "there is no other credential")),
        )
    }

    /// Returns the path of a file, which must be readable; none where nothing is sent.
    fn path(&mut self, key: &Key<String>, path: &str) -> Option<PathBuf> {
        let file = self
            .text(key, path)
            .map(PathBuf::from)
            .filter(|_| !self.is_offline)?;
        if let Err(err) = cloud_provider::files::read(&file) {
            self.file
                .refuse(key, &format!("cannot be read: {}: {err}", file.display()));
        }
        Some(file)
    }

    /// Refuses a missing key, unless it is set, or may be set where something else is wrong.
    fn missing(&mut self, key: &Key<String>, why: &str) -> String {
        if !self.file.is_set(key) && self.clouds.mistakes.is_empty() && !self.is_offline {
            self.file.refuse(key, &format!("is missing: {why}"));
        }
        String::new()
    }
}
