//! The clouds of Azure, each with endpoints of its own.

use cloud_provider::{Error, Result, Setup};
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
}

/// The names that `cloud` accepts, with login and Resource Manager.
const KNOWN: [(&str, &str, &str); 3] = [
    ("AzurePublicCloud", "https://login.microsoftonline.com", "https://management.azure.com"),
    ("AzureChinaCloud", "https://login.chinacloudapi.cn", "https://management.chinacloudapi.cn"),
    ("AzureUSGovernmentCloud", "https://login.microsoftonline.us", "https://management.usgovcloudapi.net"),
];

impl CloudEndpoints {
    /// Returns the endpoints of the cloud `name`. Those of `AzureStackCloud` are in the file of the environment variable
    /// `AZURE_ENVIRONMENT_FILEPATH`.
    ///
    /// # Errors
    /// *Invalid* for an unknown name, and for a file that cannot be read or lacks an endpoint.
    pub(crate) fn of(name: &str, setup: &Setup) -> Result<Self> {
        if name.eq_ignore_ascii_case("AzureStackCloud") {
            let variable = "AZURE_ENVIRONMENT_FILEPATH";
            let path = setup.environment.get(variable).unwrap_or_default();
            let text = std::fs::read_to_string(path).map_err(|error| {
                Error::invalid(format!("cloud: AzureStackCloud needs {variable}: {path:?}: {error}"))
            })?;
            return Self::from_file(&text).ok_or_else(|| {
                Error::invalid(format!("{path}: activeDirectoryEndpoint or resourceManagerEndpoint is missing"))
            });
        }
        let found = KNOWN
            .iter()
            .find(|(known, ..)| name.is_empty() && *known == KNOWN[0].0 || known.eq_ignore_ascii_case(name));
        let known = || KNOWN.map(|(name, ..)| name).join(", ");
        let (_, login, manager) = found
            .ok_or_else(|| Error::invalid(format!("cloud: {name:?} is not one of {}, AzureStackCloud", known())))?;
        Ok(Self {
            login: (*login).to_owned(),
            resource_manager: (*manager).to_owned(),
            audience: format!("{manager}/"),
        })
    }

    fn from_file(text: &str) -> Option<Self> {
        let file: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
        let text =
            |key: &str| file[key].as_str().filter(|it| !it.is_empty()).map(|it| it.trim_end_matches('/').to_owned());
        let resource_manager = text("resourceManagerEndpoint")?;
        let audience = file["tokenAudience"].as_str().map_or_else(|| format!("{resource_manager}/"), str::to_owned);
        Some(Self { login: text("activeDirectoryEndpoint")?, resource_manager, audience })
    }
}
