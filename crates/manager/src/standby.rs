//! The work of every replica, whether it leads or not: serving, sending events, checking permissions, probing the API
//! server and following the configuration file of the cloud.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudProvider;
use kube::Client;
use runtime::events::EventSender;
use runtime::loops::restarting;
use serving::access::Access;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::controller_set::Settings;
use crate::endpoints::{Ports, Routes, Servers};
use crate::permissions::{self, Features};
use crate::provider::CloudConfigWatch;

/// Time that remains for sending events and other pending data at the end.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of the process that work on a standby replica as well.
pub(crate) struct Standby {
    pub(crate) ports: Ports,
    pub(crate) routes: Routes,
    /// Authentication and authorization of the callers of the secure port.
    pub(crate) access: Option<Access>,
    /// Client for requests that belong to no component.
    pub(crate) client: Client,
    /// Task that sends the events of the election.
    pub(crate) events: EventSender,
    pub(crate) features: Features,
    pub(crate) cloud_config: Option<CloudConfigWatch>,
}

/// The running servers and tasks of a replica.
pub(crate) struct Background {
    servers: Servers,
    tasks: TaskTracker,
    /// Token whose cancellation ends the tasks.
    over: CancellationToken,
}

impl Standby {
    /// Starts the servers and the tasks. A changed configuration file that requires a restart cancels `stop` (APP-89).
    pub(crate) fn start(
        self,
        settings: &Settings,
        provider: &Arc<dyn CloudProvider>,
        stop: &CancellationToken,
    ) -> Background {
        let Self {
            ports,
            mut routes,
            access,
            client,
            events,
            features,
            cloud_config,
        } = self;
        let tasks = TaskTracker::new();
        let over = CancellationToken::new();
        if let Some(access) = access {
            routes.secure = access.guard(routes.secure);
            tasks.spawn(follow_access(access, over.clone()));
        }
        let servers = Servers::start(ports, routes, &settings.metrics);
        tasks.spawn(events.run(over.clone()));
        tasks.spawn(
            over.clone()
                .run_until_cancelled_owned(check_permissions(client.clone(), features)),
        );
        let identity = settings.identity.clone();
        let server = client.clone();
        let learn = async move { identity.learn_from(&server).await };
        tasks.spawn(over.clone().run_until_cancelled_owned(learn));
        tasks.spawn(probe_api_server(settings.clone(), client, over.clone()));
        if let Some(cloud_config) = cloud_config {
            let follow = cloud_config.follow(Arc::clone(provider), settings.metrics.clone());
            let stop = stop.clone();
            let follow = async move {
                follow.await;
                stop.cancel();
            };
            tasks.spawn(over.clone().run_until_cancelled_owned(follow));
        }
        tasks.close();
        Background {
            servers,
            tasks,
            over,
        }
    }
}

impl Background {
    /// Ends the tasks and answers the requests in progress, within two seconds.
    pub(crate) async fn end(self) {
        self.over.cancel();
        let flush = async { tokio::join!(self.tasks.wait(), self.servers.end()) };
        _ = tokio::time::timeout(FINAL_FLUSH_TIMEOUT, flush).await;
    }
}

/// Keeps the authentication of callers up to date.
async fn follow_access(access: Access, over: CancellationToken) {
    restarting("access", &over, || access.clone().reload_cas(over.clone())).await;
}

/// Probes the API server while no other request is answered.
async fn probe_api_server(settings: Settings, client: Client, over: CancellationToken) {
    restarting("contact", &over, || {
        settings.contact.clone().keep(client.clone(), over.clone())
    })
    .await;
}

/// Checks once that the identity has every permission that will be needed, and logs the missing ones (DEP-31).
async fn check_permissions(client: Client, features: Features) {
    permissions::check(&client, &features).await.log();
}
