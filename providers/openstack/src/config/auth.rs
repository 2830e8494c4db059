//! Who we are: of `[Global]`, completed from `clouds.yaml` (§1.2).

use std::path::PathBuf;

use cloud_provider::Environment;
use provider_kit::declared::Value;
use provider_kit::gcfg::{Key, Settings};
use secrecy::SecretString;

use super::{Auth, Domain, Interface, Method, Named, Scope, Tls, User};
use crate::clouds_yaml::{Choice, Clouds};
use crate::keys::*;

/// `[Global]`, while it is read.
pub(super) struct Global<'a> {
    file: &'a mut Settings,
    clouds: Clouds,
}

/// By its id or by its name.
enum By {
    Id(String),
    Name(String),
}

impl<'a> Global<'a> {
    pub(super) fn of(file: &'a mut Settings, environment: &Environment) -> Self {
        let (named, cloud) = (file.get(&CLOUDS_FILE), file.get(&CLOUD));
        let set = |name| environment.get(name).filter(|value| !value.is_empty());
        let choice = Choice {
            file: named.as_deref().or_else(|| set(OS_CLIENT_CONFIG_FILE.key())),
            cloud: cloud.as_deref().or_else(|| set(OS_CLOUD.key())),
        };
        let clouds = if file.flag(&USE_CLOUDS) {
            Clouds::read(&choice, environment)
        } else {
            for key in [&CLOUDS_FILE, &CLOUD] {
                if file.is_set(key) {
                    file.warning(format!("{} has no effect without use-clouds", file.named(key)));
                }
            }
            Clouds::default()
        };
        Self { file, clouds }
    }

    pub(super) fn auth(&mut self) -> Auth {
        let url = self.url();
        let domain = self.named(&DOMAIN_ID, &DOMAIN_NAME, "auth.domain_").map(Domain::from);
        let user_domain = self.named(&USER_DOMAIN_ID, &USER_DOMAIN_NAME, "auth.user_domain_").map(Domain::from);
        let method = self.method(user_domain.or_else(|| domain.clone()));
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
        let kind = Interface::KIND;
        for path in ["endpoint_type", "interface"] {
            match self.clouds.text(path).map(|text| (kind.parse(&text), text)) {
                None => {}
                Some((Some(interface), _)) => return interface,
                Some((None, text)) => self.clouds.refuse(path, &format!("{text:?} is not {}", kind.accepted())),
            }
        }
        Interface::default()
    }

    pub(super) fn tls(&mut self) -> Tls {
        let roots = self.path(&CA_FILE, "cacert");
        let (cert, key) = (self.path(&CERT_FILE, "cert"), self.path(&KEY_FILE, "key"));
        if cert.is_some() != key.is_some() {
            let (there, missing) = if cert.is_some() { (&CERT_FILE, &KEY_FILE) } else { (&KEY_FILE, &CERT_FILE) };
            self.file.mistake(format!("{} is set: {} is needed with it", self.file.named(there), missing.key()));
        }
        Tls { roots, identity: cert.zip(key), insecure: self.file.get(&TLS_INSECURE).unwrap_or_default() }
    }

    /// Ends the reading. What was read beside the file.
    pub(super) fn finish(self) -> Vec<PathBuf> {
        for mistake in &self.clouds.mistakes {
            self.file.mistake(mistake);
        }
        self.clouds.files()
    }

    /// Keystone's, without its version.
    fn url(&mut self) -> String {
        let place = self.file.named(&AUTH_URL);
        let Some(url) = self.text(&AUTH_URL, "auth.auth_url") else {
            self.missing(&AUTH_URL, "the URL of Keystone");
            return String::new();
        };
        let url = url.trim().trim_end_matches('/');
        let is_url = url.parse::<http::Uri>().is_ok_and(|url| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.authority().is_some() && url.query().is_none()
        });
        if !is_url {
            self.file.mistake(format!("{place}: this is no URL of the form https://keystone.example:5000/v3"));
        } else if url.ends_with("/v2.0") {
            self.file.mistake(format!("{place}: version 2.0 of Keystone is gone; leave it out, or write /v3"));
        }
        url.strip_suffix("/v3").unwrap_or(url).trim_end_matches('/').to_owned()
    }

    /// The token if there is one, else the application credential, else the password; what the file itself says goes before
    /// what `clouds.yaml` says.
    fn method(&mut self, domain: Option<Domain>) -> Method {
        let token = self.file.is_set(&TOKEN);
        let application = self.file.is_set(&APPLICATION_CREDENTIAL_SECRET)
            || self.file.is_set(&APPLICATION_CREDENTIAL_ID)
            || self.file.is_set(&APPLICATION_CREDENTIAL_NAME);
        let password = self.file.is_set(&PASSWORD) || self.file.is_set(&TRUSTEE_PASSWORD);
        let (file, clouds) = (token || application || password, &mut self.clouds);
        let token = token || !file && clouds.text("auth.token").is_some();
        let application = application || !file && clouds.text("auth.application_credential_secret").is_some();
        if token {
            if application || password {
                self.file.warning(format!("{} is what counts: no other credential does", self.file.named(&TOKEN)));
            }
            Method::Token(self.secret(&TOKEN, "auth.token"))
        } else if application {
            if password {
                let place = self.file.named(&PASSWORD);
                self.file.warning(format!("{place} does not count beside an application credential"));
            }
            self.application_credential(domain)
        } else {
            self.password(domain)
        }
    }

    fn application_credential(&mut self, domain: Option<Domain>) -> Method {
        let credential = match self.named(
            &APPLICATION_CREDENTIAL_ID,
            &APPLICATION_CREDENTIAL_NAME,
            "auth.application_credential_",
        ) {
            Some(By::Id(id)) => Named::Id(id),
            Some(By::Name(name)) => Named::Name(name, self.user(domain)),
            None => {
                self.missing(&APPLICATION_CREDENTIAL_ID, "application-credential-secret is set");
                Named::Id(String::new())
            }
        };
        let secret = self.secret(&APPLICATION_CREDENTIAL_SECRET, "auth.application_credential_secret");
        Method::ApplicationCredential { credential, secret }
    }

    /// Of a user, or of a trustee in its place.
    fn password(&mut self, domain: Option<Domain>) -> Method {
        if !self.file.is_set(&TRUST_ID) {
            for key in [&TRUSTEE_ID, &TRUSTEE_PASSWORD] {
                if self.file.is_set(key) {
                    self.file.mistake(format!("{} needs trust-id", self.file.named(key)));
                }
            }
        }
        let (key, path) = match self.file.is_set(&TRUSTEE_PASSWORD) {
            true => (&TRUSTEE_PASSWORD, ""),
            false => (&PASSWORD, "auth.password"),
        };
        let password = self.secret(key, path);
        let user = self.file.get(&TRUSTEE_ID).map(User::Id).unwrap_or_else(|| self.user(domain));
        Method::Password { user, password }
    }

    fn user(&mut self, domain: Option<Domain>) -> User {
        match self.named(&USER_ID, &USERNAME, "auth.user") {
            Some(By::Id(id)) => User::Id(id),
            Some(By::Name(name)) => {
                User::Name(name, domain.unwrap_or_else(|| self.no_domain(&USER_DOMAIN_NAME, "username")))
            }
            None => {
                self.missing(&USERNAME, "there is no user-id either");
                User::Id(String::new())
            }
        }
    }

    fn scope(&mut self, method: &Method, domain: Option<Domain>) -> Scope {
        if let Some(trust) = self.file.get(&TRUST_ID) {
            if matches!(method, Method::ApplicationCredential { .. }) {
                let place = self.file.named(&TRUST_ID);
                self.file.mistake(format!(
                    "{place} does not go with an application credential, which says itself what it is for"
                ));
            }
            return Scope::Trust(trust);
        }
        if matches!(method, Method::ApplicationCredential { .. }) {
            return Scope::None;
        }
        let of_project = self.named(&TENANT_DOMAIN_ID, &TENANT_DOMAIN_NAME, "auth.project_domain_").map(Domain::from);
        match (self.named(&TENANT_ID, &TENANT_NAME, "auth.project_"), domain) {
            (Some(By::Id(id)), _) => Scope::ProjectId(id),
            (Some(By::Name(name)), domain) => {
                let domain = of_project.or(domain);
                Scope::Project(name, domain.unwrap_or_else(|| self.no_domain(&TENANT_DOMAIN_NAME, "tenant-name")))
            }
            (None, Some(domain)) => Scope::Domain(domain),
            (None, None) => Scope::None,
        }
    }
}

/// Values of the file, else of `clouds.yaml`.
impl Global<'_> {
    fn text(&mut self, key: &Key<String>, path: &str) -> Option<String> {
        if self.file.is_set(key) { self.file.get(key) } else { self.clouds.text(path) }
    }

    /// The id, else the name. One that the file has goes before both of `clouds.yaml`, whose fields begin with `path`.
    fn named(&mut self, id: &Key<String>, name: &Key<String>, path: &str) -> Option<By> {
        if self.file.is_set(id) && self.file.is_set(name) {
            self.file.warning(format!("{} does not count beside {}", self.file.named(name), id.key()));
        }
        if self.file.is_set(id) {
            return self.file.get(id).map(By::Id);
        }
        if self.file.is_set(name) {
            return self.file.get(name).map(By::Name);
        }
        // The fields are `domain_id` and `domain_name`, but `user_id` and `username`.
        let id = format!("{}_id", path.trim_end_matches('_'));
        let id = self.clouds.text(&id).map(By::Id);
        id.or_else(|| self.clouds.text(&format!("{path}name")).map(By::Name))
    }

    fn secret(&mut self, key: &Key<String>, path: &str) -> SecretString {
        let text = self.text(key, path).unwrap_or_default();
        if text.is_empty() {
            self.missing(key, "nothing else proves who we are");
        }
        SecretString::from(text)
    }

    /// A file that must be readable.
    fn path(&mut self, key: &Key<String>, path: &str) -> Option<PathBuf> {
        let file = self.text(key, path).map(PathBuf::from)?;
        if let Err(err) = std::fs::File::open(&file) {
            self.file.mistake(format!("{}: cannot read {}: {err}", self.file.named(key), file.display()));
        }
        Some(file)
    }

    /// Unless it is there, or may be where something else is wrong.
    fn missing(&mut self, key: &Key<String>, why: &str) {
        if !self.file.is_set(key) && self.clouds.mistakes.is_empty() {
            self.file.mistake(format!("{} is missing: {why}", self.file.named(key)));
        }
    }

    fn no_domain(&mut self, key: &Key<String>, of: &str) -> Domain {
        self.missing(key, &format!("{of} is a name in a domain; domain-name is for both"));
        Domain::Name(String::new())
    }
}

impl From<By> for Domain {
    fn from(by: By) -> Self {
        match by {
            By::Id(id) => Self::Id(id),
            By::Name(name) => Self::Name(name),
        }
    }
}
