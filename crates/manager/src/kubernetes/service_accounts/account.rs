//! A ServiceAccount: its creation and its token requests.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use runtime::api_error::{api_error, is_already_exists, is_not_found};

use super::error::{Doing, ServiceAccountError};

/// Requested lifetime of a token, in seconds.
const TOKEN_LIFETIME: i64 = 3600;

/// A ServiceAccount, and the client that manages it.
pub(super) struct Account {
    main: Client,
    namespace: &'static str,
    name: String,
}

impl Account {
    pub(super) fn new(main: Client, namespace: &'static str, name: &str) -> Self {
        Self {
            main,
            namespace,
            name: name.to_owned(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Creates the ServiceAccount if it does not exist (APP-51, step 1).
    pub(super) async fn ensure(&self) -> Result<(), ServiceAccountError> {
        let accounts = self.accounts();
        match accounts.get(&self.name).await {
            Ok(_) => return Ok(()),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(self.failed(Doing::Get, error)),
        }
        self.ensure_namespace().await;
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.into()),
            ..Default::default()
        };
        let account = ServiceAccount {
            metadata,
            ..Default::default()
        };
        match accounts.create(&PostParams::default(), &account).await {
            Ok(_) => {
                tracing::info!(
                    account = self.name,
                    namespace = self.namespace,
                    "service account created"
                );
                Ok(())
            }
            // Another replica created the account first.
            Err(error) if is_already_exists(&error) => {
                let got = accounts.get(&self.name).await;
                got.map(drop)
                    .map_err(|error| self.failed(Doing::Get, error))
            }
            Err(error) => Err(self.failed(Doing::Create, error)),
        }
    }

    /// Creates the namespace if it does not exist. The identity may lack the permission, so a failure is only logged.
    async fn ensure_namespace(&self) {
        let namespaces: Api<Namespace> = Api::all(self.main.clone());
        match namespaces.get(self.namespace).await {
            Err(error) if is_not_found(&error) => {}
            _ => return,
        }
        let metadata = ObjectMeta {
            name: Some(self.namespace.into()),
            ..Default::default()
        };
        let namespace = Namespace {
            metadata,
            ..Default::default()
        };
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(error) if !is_already_exists(&error) => {
                tracing::warn!(namespace = self.namespace, error = %api_error(&error), "the namespace is missing and cannot be created");
            }
            _ => {}
        }
    }

    /// Requests a new token (APP-51, step 2).
    pub(super) async fn request_token(&self) -> Result<TokenRequest, ServiceAccountError> {
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_LIFETIME),
            ..Default::default()
        };
        let request = TokenRequest {
            spec,
            ..Default::default()
        };
        let answer = self
            .accounts()
            .create_token_request(&self.name, &PostParams::default(), &request)
            .await;
        answer.map_err(|error| self.failed(Doing::RequestToken, error))
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.main.clone(), self.namespace)
    }

    fn failed(&self, doing: Doing, error: kube::Error) -> ServiceAccountError {
        ServiceAccountError::of(self.namespace, &self.name, doing, error)
    }

    /// Returns the error for an answer that cannot be used.
    pub(super) fn unusable(&self, doing: Doing, text: &str) -> ServiceAccountError {
        let namespace = self.namespace.to_owned();
        let name = self.name.clone();
        ServiceAccountError::Account {
            doing,
            namespace,
            name,
            text: text.to_owned(),
            forbidden: false,
        }
    }
}
