//! Credentials in the order of the Go program, and the metadata service of the machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use cloud_provider::{ConfigFile, Error, Result, async_trait};
use jiff::Timestamp;
use provider_kit::document::Document;
use provider_kit::signing::AwsCredentials as Keys;
use provider_kit::tokens::{Issued, Issuer};
use provider_kit::transport::{Call, Method, Transport};
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::api::{Furnish, Query, STS, transport};
use crate::config::{Config, Oidc};

/// Credentials are read again after this time at the latest, as by the Go program.
const REREAD: Duration = Duration::from_secs(600);
/// Credentials that seem to have ended are tried for this time: the clock may be wrong.
const AT_LEAST: Duration = Duration::from_secs(60);
const ROLES: &str = "ram/security-credentials/";

/// The metadata service of the machine that the program runs on.
pub(crate) struct Metadata {
    config: Arc<Config>,
    http: Transport,
    region: OnceCell<String>,
    vpc: OnceCell<String>,
}

impl Metadata {
    pub(crate) fn new(config: Arc<Config>, furnish: &Furnish) -> Result<Self> {
        let http = furnish(Transport::builder(&config.metadata_endpoint))
            .metadata_service()
            .build()?;
        Ok(Self {
            config,
            http,
            region: OnceCell::new(),
            vpc: OnceCell::new(),
        })
    }

    /// Returns the region of the configuration, or else of the machine.
    pub(crate) async fn region(&self) -> Result<String> {
        self.known(
            &self.region,
            self.config.region.as_deref(),
            "region-id",
            "region",
        )
        .await
    }

    /// Returns the VPC of the configuration, or else of the machine.
    pub(crate) async fn vpc(&self) -> Result<String> {
        self.known(&self.vpc, self.config.vpc.as_deref(), "vpc-id", "vpcid")
            .await
    }

    async fn known(
        &self,
        cell: &OnceCell<String>,
        set: Option<&str>,
        path: &str,
        key: &str,
    ) -> Result<String> {
        if let Some(text) = set {
            return Ok(text.to_owned());
        }
        let found = cell.get_or_try_init(|| async {
            let text = self.read(path).await;
            text.map_err(|error| {
                error.context(format!(
                    "{key} is unknown; set Global.{key} in the cloud configuration"
                ))
            })
        });
        found.await.cloned()
    }

    /// Returns the vSwitch and the zone of the machine.
    pub(crate) async fn vswitch(&self) -> Result<String> {
        self.read("vswitch-id").await
    }

    /// Reads a path below `/latest/meta-data/`, with a token (IMDSv2) where the service gives one.
    async fn read(&self, path: &str) -> Result<String> {
        let token = Call::new(Method::PUT, "/latest/api/token", &[])
            .operation("metadata GetToken")
            .reading();
        let token = match self
            .http
            .send(token.header("x-aliyun-ecs-metadata-token-ttl-seconds", 21_600))
            .await
        {
            Ok(answer) if self.config.has_imdsv2 => Some(answer.text()),
            Err(error) if error.is_unanswered() => {
                return Err(error.context("the metadata service does not answer"));
            }
            _ => None,
        };
        let (first, role) = path
            .strip_prefix(ROLES)
            .map_or((path, None), |role| (ROLES, Some(role)));
        let call = match role {
            Some("") => Call::get("/latest/meta-data/ram/security-credentials/", &[]),
            Some(role) => Call::get("/latest/meta-data/ram/security-credentials/{role}", &[role]),
            None => Call::get("/latest/meta-data/{name}", &[first]),
        };
        let call = call.operation("metadata Get");
        let call = token.iter().fold(call, |call, token| {
            call.header("x-aliyun-ecs-metadata-token", token)
                .hide(token.as_str().into())
        });
        let answer = self.http.send(call).await?;
        Ok(answer.text())
    }
}

/// The credentials of the first source that is configured.
pub(crate) struct Chain {
    config: Arc<Config>,
    metadata: Arc<Metadata>,
    furnish: Furnish,
    is_offline: bool,
}

/// Credentials as the metadata service and STS answer them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Temporary {
    access_key_id: String,
    access_key_secret: String,
    security_token: String,
    expiration: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Assumed {
    credentials: Temporary,
}

/// The token file of an add-on; the first three texts are encrypted with `keyring`.
#[derive(Deserialize)]
struct TokenFile {
    #[serde(rename = "access.key.id")]
    id: String,
    #[serde(rename = "access.key.secret")]
    secret: String,
    #[serde(rename = "security.token")]
    token: String,
    expiration: Timestamp,
    keyring: String,
}

impl Chain {
    pub(crate) fn new(
        config: Arc<Config>,
        metadata: Arc<Metadata>,
        furnish: Furnish,
        is_offline: bool,
    ) -> Self {
        Self {
            config,
            metadata,
            furnish,
            is_offline,
        }
    }

    async fn keys(&self) -> Result<(Keys, Option<Timestamp>)> {
        let key = |(id, secret): &(String, secrecy::SecretString)| Keys {
            access_key: id.clone(),
            secret_key: secret.clone(),
            session_token: None,
        };
        let of = |entry: Temporary| {
            let session_token = Some(entry.security_token)
                .filter(|text| !text.is_empty())
                .map(Into::into);
            let secret_key = entry.access_key_secret.into();
            (
                Keys {
                    access_key: entry.access_key_id,
                    secret_key,
                    session_token,
                },
                Some(entry.expiration),
            )
        };
        if self.is_offline {
            return Ok((
                Keys {
                    access_key: String::new(),
                    secret_key: String::new().into(),
                    session_token: None,
                },
                None,
            ));
        }
        if self.config.token_file.exists() {
            return read_token_file(&self.config.token_file).map(of);
        }
        if let Some(keys) = &self.config.access_key {
            return Ok((key(keys), None));
        }
        if let Some(oidc) = &self.config.oidc {
            let text = format!("cannot assume role {}", oidc.role);
            return self
                .assume(oidc)
                .await
                .map(of)
                .map_err(|error| error.context(text));
        }
        let role = self.metadata.read(ROLES).await?;
        let text = self
            .metadata
            .read(&format!(
                "{ROLES}{}",
                role.lines().next().unwrap_or_default()
            ))
            .await?;
        let keys: Result<Temporary, _> = serde_json::from_str(&text);
        keys.map(of).map_err(|_| {
            Error::unauthorized(format!(
                "the RAM role {role:?} of the machine has no credentials"
            ))
        })
    }

    async fn assume(&self, oidc: &Oidc) -> Result<Temporary> {
        let path = &oidc.token_file;
        let token = cloud_provider::files::read_to_string(path);
        let token = token.map_err(|err| {
            Error::unauthorized(format!("cannot read the OIDC token {path}: {err}"))
        })?;
        let query = Query::new(STS, "AssumeRoleWithOIDC")
            .set("RoleArn", &oidc.role)
            .set("OIDCToken", token.trim());
        let query = query
            .set("OIDCProviderArn", &oidc.provider)
            .set("RoleSessionName", "ccm-rs");
        let http = transport(None, &self.config, &self.metadata, STS, None, &self.furnish)?;
        let call = query.call().hide(token.trim().into());
        http.read::<Assumed>(call)
            .await
            .map(|entry| entry.credentials)
    }
}

#[async_trait]
impl Issuer for Chain {
    type Token = Keys;

    async fn issue(&self) -> Result<Issued<Keys>> {
        let keys = self.keys().await;
        let (token, end) =
            keys.map_err(|error| error.context("cannot read Alibaba Cloud credentials"))?;
        let left =
            end.and_then(|end| Duration::try_from(end.duration_since(Timestamp::now())).ok());
        let lifetime = end.map_or(REREAD, |_| left.unwrap_or_default().max(AT_LEAST));
        Ok(Issued {
            token,
            scope: "the account".to_owned(),
            lifetime,
            is_renewable: true,
        })
    }
}

fn read_token_file(path: &PathBuf) -> Result<Temporary> {
    let place = path.display();
    let text = cloud_provider::files::read_to_string(path);
    let text = text
        .map_err(|err| Error::unauthorized(format!("cannot read the token file {place}: {err}")))?;
    let file = ConfigFile {
        path: place.to_string(),
        text,
    };
    let file = Document::of(&file).and_then(|document| document.read_with_warnings::<TokenFile>());
    let (file, _) =
        file.map_err(|_| Error::unauthorized(format!("the token file {place} has no valid JSON")))?;
    if file.expiration <= Timestamp::now() {
        return Err(Error::unauthorized(format!(
            "the token file {place} expired at {}",
            file.expiration
        )));
    }
    let plain = |text: &str| {
        let key = "a text that keyring decrypts (AES-CBC, base64)";
        decrypted(text, file.keyring.as_bytes())
            .ok_or_else(|| Error::unauthorized(format!("the token file {place} is not {key}")))
    };
    Ok(Temporary {
        access_key_id: plain(&file.id)?,
        access_key_secret: plain(&file.secret)?,
        security_token: plain(&file.token)?,
        expiration: file.expiration,
    })
}

/// Decrypts base64(IV ‖ AES-CBC ciphertext) with PKCS#5 padding.
fn decrypted(text: &str, key: &[u8]) -> Option<String> {
    let bytes = STANDARD.decode(text.trim()).ok()?;
    let (iv, text) = bytes.split_at_checked(16)?;
    let plain = match key.len() {
        16 => cbc::Decryptor::<aes::Aes128>::new_from_slices(key, iv)
            .ok()?
            .decrypt_padded_vec::<Pkcs7>(text),
        24 => cbc::Decryptor::<aes::Aes192>::new_from_slices(key, iv)
            .ok()?
            .decrypt_padded_vec::<Pkcs7>(text),
        _ => cbc::Decryptor::<aes::Aes256>::new_from_slices(key, iv)
            .ok()?
            .decrypt_padded_vec::<Pkcs7>(text),
    };
    String::from_utf8(plain.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use cbc::cipher::BlockModeEncrypt;

    use super::*;

    fn encrypted(text: &str, key: &[u8; 32]) -> String {
        let iv = [7_u8; 16];
        let text = cbc::Encryptor::<aes::Aes256>::new(key.into(), &iv.into())
            .encrypt_padded_vec::<Pkcs7>(text.as_bytes());
        STANDARD.encode([&iv[..], &text].concat())
    }

    #[test]
    fn token_file_with_keys_in_any_case_is_decrypted_unless_it_expired() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token-config");
        let key = b"0123456789abcdef0123456789abcdef";
        let write = |expiration: &str| {
            let [id, secret, token] =
                ["STS.id", "secret", "token"].map(|token| encrypted(token, key));
            let text = serde_json::json!({"access.key.id": id, "access.key.secret": secret, "security.token": token,
                "Expiration": expiration, "KeyRing": String::from_utf8_lossy(key)});
            std::fs::write(&path, text.to_string()).unwrap();
        };
        write("2100-01-01T00:00:00Z");
        let read = read_token_file(&path).unwrap();
        assert_eq!(
            [
                read.access_key_id,
                read.access_key_secret,
                read.security_token
            ],
            ["STS.id", "secret", "token"]
        );
        write("2020-01-01T00:00:00Z");
        assert!(
            read_token_file(&path)
                .err()
                .unwrap()
                .to_string()
                .contains("expired at 2020")
        );
        std::fs::write(&path, "{}").unwrap();
        assert!(read_token_file(&path).err().unwrap().is_unauthorized());
    }
}
