//! The binary's own credential at the API server, replaced while it runs (APP-48, P-39).

use std::path::Path;

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tempfile::TempDir;

use crate::cluster::connect;
use crate::environment::Environment;
use crate::scene::{SOON, Scene, play};

/// Account, binding and lease.
const NAME: &str = "e2e-renewal";
const NAMESPACE: &str = "kube-system";

pub(crate) async fn a_token_that_becomes_worthless_is_replaced_without_a_restart(
    environment: &Environment,
) -> Result<()> {
    let directory = TempDir::with_prefix("ccm-e2e-renewal-")?;
    let users = Users::new(environment).await?;
    users.clean_up().await?;
    let kubeconfig = directory.path().join("kubeconfig");
    let token = directory.path().join("token");
    users.write_kubeconfig(&kubeconfig, &token)?;
    let first = users.token("first").await?;
    let second = users.token("second").await?;
    let third = users.token("third").await?;
    std::fs::write(&token, &first)?;
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    // Long enough not to expire during the test on a slow machine.
    let flags = [
        &kubeconfig,
        "--leader-elect=true",
        &format!("--leader-elect-resource-name={NAME}"),
        "--leader-elect-lease-duration=600s",
        "--leader-elect-renew-deadline=500s",
        "--leader-elect-retry-period=1s",
    ];
    play(environment, "renewal", &flags, async |scene| {
        let names = scene.names(3);
        scene.create_machines(&names);
        register(scene, &names[..1]).await?;
        let before = users.lease().await?;

        // There is another one before the first is worthless.
        std::fs::write(&token, &second)?;
        users.revoke("first", &first).await?;
        register(scene, &names[1..2]).await?;
        users.is_renewed(&before).await?;

        // There is another one only after the second is worthless.
        users.revoke("second", &second).await?;
        let now = users.lease().await?;
        std::fs::write(&token, &third)?;
        register(scene, &names[2..]).await?;
        users.is_renewed(&now).await
    })
    .await?;
    users.clean_up().await
}

async fn register(scene: &Scene, names: &[String]) -> Result<()> {
    scene.kubelets.register(names, true).await?;
    scene.initialised(names, SOON).await
}

/// An account that may do everything, and whose tokens end with their Secrets.
struct Users {
    client: Client,
    /// Kubeconfig of the test cluster without a user.
    server: Kubeconfig,
}

impl Users {
    async fn new(environment: &Environment) -> Result<Self> {
        let mut server = Kubeconfig::read_from(environment.kubeconfig()?)?;
        for user in &mut server.auth_infos {
            user.auth_info = Some(AuthInfo::default());
        }
        Ok(Self {
            client: connect(environment).await?,
            server,
        })
    }

    fn write_kubeconfig(&self, path: &Path, token: &Path) -> Result<()> {
        let mut file = self.server.clone();
        for user in file
            .auth_infos
            .iter_mut()
            .filter_map(|user| user.auth_info.as_mut())
        {
            user.token_file = Some(token.display().to_string());
        }
        Ok(std::fs::write(path, serde_json::to_string(&file)?)?)
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn bindings(&self) -> Api<ClusterRoleBinding> {
        Api::all(self.client.clone())
    }

    /// Creates a token that is valid as long as the Secret `name` exists.
    async fn token(&self, name: &str) -> Result<String> {
        let meta = json!({"name": NAME});
        let subject = json!({"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
        create(&self.accounts(), json!({"metadata": meta})).await?;
        create(
            &self.bindings(),
            json!({"metadata": meta, "roleRef": role, "subjects": [subject]}),
        )
        .await?;
        create(
            &self.secrets(),
            json!({"metadata": {"name": format!("{NAME}-{name}")}}),
        )
        .await?;
        let secret = self.secrets().get(&format!("{NAME}-{name}")).await?;
        let bound = json!({"apiVersion": "v1", "kind": "Secret", "name": secret.name_any(), "uid": secret.uid()});
        let wanted: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "boundObjectRef": bound}}))?;
        let given = self
            .accounts()
            .create_token_request(NAME, &PostParams::default(), &wanted)
            .await?;
        Ok(given.status.context("no token")?.token)
    }

    /// Makes a token worthless, and waits until the API server has noticed.
    async fn revoke(&self, name: &str, token: &str) -> Result<()> {
        self.secrets()
            .delete(&format!("{NAME}-{name}"), &DeleteParams::default())
            .await?;
        let mut config =
            Config::from_custom_kubeconfig(self.server.clone(), &KubeConfigOptions::default())
                .await?;
        config.auth_info.token = Some(token.to_owned().into());
        let client = Client::try_from(config)?;
        until("the API server refuses the token", SOON, async || {
            let answer = Api::<Lease>::namespaced(client.clone(), NAMESPACE)
                .get_opt(NAME)
                .await;
            ensure!(
                matches!(&answer, Err(kube::Error::Api(error)) if error.code == 401),
                "it says {answer:?}"
            );
            Ok(())
        })
        .await
    }

    async fn lease(&self) -> Result<Lease> {
        Ok(self.leases().get(NAME).await?)
    }

    /// Waits until the lease is younger than `before`, and of the same tenure.
    async fn is_renewed(&self, before: &Lease) -> Result<()> {
        let tenure = |lease: &Lease| {
            lease.spec.clone().map(|spec| {
                (
                    spec.holder_identity,
                    spec.acquire_time,
                    spec.lease_transitions,
                )
            })
        };
        let renewal = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        until("the lease is renewed", SOON, async || {
            let now = self.lease().await?;
            ensure!(
                tenure(&now) == tenure(before),
                "it was lost: {before:?}, {now:?}"
            );
            ensure!(renewal(&now) > renewal(before), "it is not");
            Ok(())
        })
        .await
    }

    async fn clean_up(&self) -> Result<()> {
        for name in ["first", "second", "third"] {
            gone(
                self.secrets()
                    .delete(&format!("{NAME}-{name}"), &DeleteParams::default())
                    .await,
            )?;
        }
        gone(self.leases().delete(NAME, &DeleteParams::default()).await)?;
        gone(self.bindings().delete(NAME, &DeleteParams::default()).await)?;
        gone(self.accounts().delete(NAME, &DeleteParams::default()).await)
    }
}

/// Creates an object, unless it is there.
async fn create<K>(api: &Api<K>, object: serde_json::Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    match api
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await
    {
        Err(kube::Error::Api(error)) if error.is_already_exists() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

fn gone<T>(deleted: kube::Result<T>) -> Result<()> {
    match deleted {
        Err(kube::Error::Api(error)) if error.is_not_found() => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}
