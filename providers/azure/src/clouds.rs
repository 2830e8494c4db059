//! The clouds of Azure, each with endpoints of its own.

use cloud_provider::{ConfigFile, Error, Result, Setup};
use provider_kit::document::Document;
use serde::Deserialize;
use serde_json::Value;

/// The endpoints of one cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEndpoints {
    /// Base URL of Microsoft Entra ID, which issues tokens.
    pub login: String,
    /// Base URL of Azure Resource Manager.
    pub resource_manager: String,
    /// The resource that tokens are issued for.
    pub audience: String,
    /// If set, the name of the cloud whose endpoints the Resource Manager shows.
    pub shown_as: Option<String>,
}

/// The path at which a Resource Manager shows the endpoints of its cloud.
pub(crate) const METADATA: &str = "/metadata/endpoints";
/// The version of [`METADATA`] that the Go program reads.
pub(crate) const METADATA_VERSION: &str = "2019-05-01";

/// The names that `cloud` accepts, with login and Resource Manager.
const KNOWN: [(&str, &str, &str); 3] = [
    (
        "AzurePublicCloud",
        "https://login.microsoftonline.com",
        "https://management.azure.com",
    ),
    (
        "AzureChinaCloud",
        "https://login.chinacloudapi.cn",
        "https://management.chinacloudapi.cn",
    ),
    (
        "AzureUSGovernmentCloud",
        "https://login.microsoftonline.us",
        "https://management.usgovcloudapi.net",
    ),
];

impl CloudEndpoints {
    /// Returns the endpoints of the cloud `name`. Those of `AzureStackCloud` are in the file of the environment variable
    /// `AZURE_ENVIRONMENT_FILEPATH`. Without a file, the Resource Manager of `manager` shows those of its cloud.
    ///
    /// # Errors
    /// *Invalid* for an unknown name, and for a file that cannot be read or lacks an endpoint.
    pub(crate) fn of(name: &str, manager: &str, setup: &Setup) -> Result<Self> {
        let mut endpoints = Self::named(name, manager, setup)?;
        if !manager.is_empty() {
            endpoints.resource_manager = manager.trim_end_matches('/').to_owned();
        }
        Ok(endpoints)
    }

    fn named(name: &str, manager: &str, setup: &Setup) -> Result<Self> {
        let shown_as = (!manager.is_empty()).then(|| name.to_owned());
        if name.eq_ignore_ascii_case("AzureStackCloud") {
            let variable = "AZURE_ENVIRONMENT_FILEPATH";
            let path = setup.environment.get(variable).unwrap_or_default();
            if path.is_empty() && shown_as.is_some() {
                return Ok(Self {
                    login: String::new(),
                    resource_manager: String::new(),
                    audience: String::new(),
                    shown_as,
                });
            }
            let text = cloud_provider::files::read_to_string(path).map_err(|error| {
                Error::invalid(format!(
                    "cloud: AzureStackCloud needs resourceManagerEndpoint, or a file in {variable}: {path:?}: {error}"
                ))
            })?;
            return Self::from_file(&text).ok_or_else(|| {
                Error::invalid(format!(
                    "{path}: activeDirectoryEndpoint or resourceManagerEndpoint is missing"
                ))
            });
        }
        let found = KNOWN.iter().find(|(known, ..)| {
            name.is_empty() && *known == KNOWN[0].0 || known.eq_ignore_ascii_case(name)
        });
        let known = || KNOWN.map(|(name, ..)| name).join(", ");
        let (_, login, manager) = found.ok_or_else(|| {
            Error::invalid(format!(
                "cloud: {name:?} is not one of {}, AzureStackCloud",
                known()
            ))
        })?;
        Ok(Self {
            login: (*login).to_owned(),
            resource_manager: (*manager).to_owned(),
            audience: format!("{manager}/"),
            shown_as,
        })
    }

    /// Returns the endpoints with those that the Resource Manager shows: a list of clouds.
    ///
    /// # Errors
    /// *Invalid* if the login endpoint is neither known nor shown.
    pub(crate) fn with_shown(mut self, clouds: &Value) -> Result<Self> {
        let name = self.shown_as.take().unwrap_or_default();
        let is_this_object = |object: &&Value| {
            name.is_empty()
                || object["name"]
                    .as_str()
                    .is_some_and(|other_name| other_name.eq_ignore_ascii_case(&name))
        };
        let cloud = clouds
            .as_array()
            .and_then(|all| all.iter().find(is_this_object));
        let text = |pointer: &str| {
            cloud
                .and_then(|cloud| cloud.pointer(pointer)?.as_str())
                .filter(|pointer| !pointer.is_empty())
        };
        let trimmed = |text: &str| text.trim_end_matches('/').to_owned();
        self.resource_manager = text("/resourceManager").map_or(self.resource_manager, trimmed);
        self.login = text("/authentication/loginEndpoint").map_or(self.login, trimmed);
        self.audience = text("/authentication/audiences/0").map_or(self.audience, str::to_owned);
        match self.login.is_empty() || self.audience.is_empty() {
            true => Err(Error::invalid(format!(
                "{}{METADATA} shows no login endpoint and audience of a cloud {name:?}; set cloud to one of its names, or \
                 AZURE_ENVIRONMENT_FILEPATH to a file with the endpoints",
                self.resource_manager
            ))),
            false => Ok(self),
        }
    }

    fn from_file(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').to_owned();
        let document = Document::of(&ConfigFile {
            path: String::new(),
            text,
        })
        .ok()?;
        // The file has endpoints of further services, which nothing reads.
        let (file, _) = document.read_with_warnings::<EnvironmentFile>().ok()?;
        let trimmed = |text: String| {
            Some(text.trim_end_matches('/').to_owned()).filter(|text| !text.is_empty())
        };
        let resource_manager = trimmed(file.resource_manager_endpoint)?;
        let audience = file
            .token_audience
            .unwrap_or_else(|| format!("{resource_manager}/"));
        Some(Self {
            login: trimmed(file.active_directory_endpoint)?,
            resource_manager,
            audience,
            shown_as: None,
        })
    }
}

/// The file that `AZURE_ENVIRONMENT_FILEPATH` names.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvironmentFile {
    resource_manager_endpoint: String,
    active_directory_endpoint: String,
    token_audience: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_environment_file_have_any_case() {
        let text = r#"{"ResourceManagerEndpoint": "https://a/", "activedirectoryendpoint": "https://b", "name": "x"}"#;
        let endpoints = CloudEndpoints::from_file(text).unwrap();
        assert_eq!(
            (
                &*endpoints.resource_manager,
                &*endpoints.login,
                &*endpoints.audience
            ),
            ("https://a", "https://b", "https://a/")
        );
    }
}
