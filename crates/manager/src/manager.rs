//! The program as a vendor's `main` configures it (APP-171, APP-174).

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::names::MANAGER_NAME;
use cloud_provider::{CloudProvider, Registry};
use serving::webhook::Webhook;
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::flags::{Configuration, Flags, Program};
use crate::kubernetes::Clients;
use crate::process::Process;
use crate::{endpoints, logging};

/// Time after which a controller that works on one object counts as wedged. Calls to the cloud time out after 15
/// minutes at the latest.
const WEDGED_AFTER: Duration = Duration::from_secs(20 * 60);

/// Creates a vendor's webhook for the provider that runs.
pub type WebhookFactory = fn(Arc<dyn CloudProvider>) -> Webhook;

/// Builder of a cloud controller manager with the given providers and a vendor's settings.
///
/// ```no_run
/// use std::process::ExitCode;
/// use cloud_provider::{CloudProvider, Registry};
/// use manager::Manager;
/// use manager::flags::Program;
///
/// # struct Acme; impl CloudProvider for Acme { fn name(&self) -> &str { "acme" } }
/// fn main() -> ExitCode {
///     let mut providers = Registry::new();
///     providers.register("acme", |_setup| Ok(std::sync::Arc::new(Acme)));
///     let program = Program::new("acme-ccm").with_default("cloud-provider", "acme");
///     Manager::new(&providers).program(program).run()
/// }
/// ```
pub struct Manager<'a> {
    pub(crate) providers: &'a Registry,
    pub(crate) program: Option<Program>,
    pub(crate) clients: Option<Clients>,
    pub(crate) webhooks: Vec<(&'static str, WebhookFactory)>,
    pub(crate) subcommands: Vec<clap::Command>,
    pub(crate) wedged_after: Duration,
    pub(crate) log: Option<logging::Handle>,
}

impl<'a> Manager<'a> {
    /// Creates a builder for these providers with the standard settings.
    #[must_use]
    pub fn new(providers: &'a Registry) -> Self {
        Self {
            providers,
            program: None,
            clients: None,
            webhooks: Vec::new(),
            subcommands: Vec::new(),
            wedged_after: WEDGED_AFTER,
            log: None,
        }
    }

    /// Sets the name of the program and the defaults of its flags. Without this call, both follow from the name of the
    /// executable (D-12).
    #[must_use]
    pub fn program(mut self, program: Program) -> Self {
        self.program = Some(program);
        self
    }

    /// Adds a webhook, which is served without authentication if `--webhooks` selects it (APP-140).
    #[must_use]
    pub fn webhook(mut self, name: &'static str, webhook: WebhookFactory) -> Self {
        self.webhooks.push((name, webhook));
        self
    }

    /// Adds a subcommand that `main` runs itself, for completions.
    #[must_use]
    pub fn subcommand(mut self, command: clap::Command) -> Self {
        self.subcommands.push(command);
        self
    }

    /// Returns the program with its providers, webhooks and subcommands, for the executable `name`. If neither the vendor
    /// nor the name tells a provider, `preset` does.
    pub(crate) fn called(&self, name: &OsStr, preset: &str) -> Program {
        let program = self
            .program
            .clone()
            .unwrap_or_else(|| Program::called_with_preset(name, preset));
        let program = program.with_providers(self.providers.names());
        let program = self
            .subcommands
            .iter()
            .cloned()
            .fold(program, Program::with_subcommand);
        self.webhooks
            .iter()
            .fold(program, |program, (name, _)| program.with_webhook(name))
    }

    /// Returns the name of the program, which arguments may repeat before the flags.
    pub(crate) fn name(&self) -> &'static str {
        self.program.as_ref().map_or(MANAGER_NAME, Program::name)
    }

    /// Sets the Kubernetes clients, instead of those that the flags configure, for example for an API server in this
    /// process.
    #[must_use]
    pub fn clients(mut self, clients: Clients) -> Self {
        self.clients = Some(clients);
        self
    }

    /// Sets the time that work on one object may take before the controller's health check fails. The default is 20
    /// minutes.
    #[must_use]
    pub fn wedged_after(mut self, limit: Duration) -> Self {
        self.wedged_after = limit;
        self
    }

    /// Sets the log whose verbosity `/debug/flags/v` changes. [`run`](Self::run) starts a log of its own, so this is
    /// for callers of [`prepare`](Self::prepare).
    #[must_use]
    pub fn log(mut self, log: logging::Handle) -> Self {
        self.log = Some(log);
        self
    }

    /// Binds the ports, sets up authentication and creates the provider: the start-up before serving and leader
    /// election (APP-4 to APP-11). Starts no controller and changes nothing in the cluster or the cloud. The process
    /// ends in order when `stop` is cancelled.
    ///
    /// # Errors
    /// The reason why the process cannot start; [`Failure::code`] is its exit code.
    pub async fn prepare(
        &self,
        flags: &Flags,
        stop: &CancellationToken,
    ) -> Result<Process, Failure> {
        flags.log_notices();
        Process::bind(self, &flags.configuration(), stop).await
    }

    /// Returns this program's webhooks and the vendor's, as far as `--webhooks` selects them.
    pub(crate) fn selected_webhooks(
        &self,
        configuration: &Configuration,
        provider: &Arc<dyn CloudProvider>,
    ) -> Vec<Webhook> {
        let vendor = self
            .webhooks
            .iter()
            .filter(|(name, _)| configuration.webhooks.includes(name));
        let vendor = vendor.map(|(_, create)| create(Arc::clone(provider)));
        endpoints::own_webhooks(configuration, provider)
            .into_iter()
            .chain(vendor)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::flags::Parsed;

    fn acme(_: Arc<dyn CloudProvider>) -> Webhook {
        unreachable!("nothing is started")
    }

    #[test]
    fn a_vendors_webhooks_are_known_to_its_flags_whatever_the_program_is_called() {
        let providers = Registry::new();
        for program in [
            None,
            Some(Program::new("acme-ccm").with_default("cloud-provider", "acme")),
        ] {
            let mut manager = Manager::new(&providers).webhook("acme-quota", acme);
            manager.program = program;
            let program =
                manager.called(OsStr::new("/usr/bin/hcloud-cloud-controller-manager"), "");
            let gate = "--feature-gates=CloudControllerManagerWebhook=true";
            let parse =
                |flag: &str| Flags::parse_as(&program, ["x", gate, flag].map(OsString::from));
            let Parsed::Flags(flags) = parse("--webhooks=acme-quota") else {
                panic!("it is known")
            };
            let configuration = flags.configuration();
            assert!(
                configuration.webhooks.includes("acme-quota") && configuration.serves_webhooks()
            );
            let Parsed::Wrong(text) = parse("--webhooks=acme") else {
                panic!("it is not known")
            };
            assert!(
                text.contains("known are *, pvlabel, lb-service, acme-quota"),
                "{text}"
            );
        }
    }
}
