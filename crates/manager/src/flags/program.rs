//! The name of the program, and the defaults that depend on it (D-12, FLAG-15).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use clap::{Arg, Command};

use super::Flags;

/// A vendor's own flag. Its value is a text: [`Flags::value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorFlag {
    /// Name of the flag without leading dashes.
    pub name: &'static str,
    /// Value of the flag if it is not set.
    pub default: &'static str,
    /// Help text of the flag.
    pub help: &'static str,
    /// If set, the value never appears in the log (INV-5).
    pub secret: bool,
}

/// Name of the program, and the defaults and flags that depend on it.
///
/// A vendor who embeds the manager sets a name and defaults (APP-171):
///
/// ```
/// use manager::flags::{Flags, Parsed, Program};
///
/// let program = Program::new("acme-ccm").with_default("cloud-provider", "acme").with_default("leader-elect", "false");
/// let arguments = ["acme-ccm".into(), "--leader-elect".into()];
/// let Parsed::Flags(flags) = Flags::parse_as(&program, arguments) else { panic!() };
/// assert_eq!(flags.cloud.cloud_provider, "acme");
/// assert!(flags.configuration().election.is_some(), "the command line wins");
/// ```
#[derive(Clone)]
pub struct Program {
    /// Base name of the program, for the `User-Agent`.
    pub(super) binary: String,
    /// Name of the program in help and messages.
    pub(super) name: &'static str,
    /// Names of flags with the defaults that replace theirs.
    defaults: Vec<(&'static str, &'static str)>,
    /// The program's own flags.
    pub(super) flags: Vec<VendorFlag>,
    /// Names of the clouds, for completions.
    pub(super) providers: Vec<&'static str>,
    /// The program's own webhooks, for `--webhooks`.
    pub(super) webhooks: Vec<&'static str>,
    /// Subcommands that the program's `main` runs itself, for completions.
    pub(super) subcommands: Vec<Command>,
    /// Function that changes the flags before they are validated.
    pub(super) adjust: Option<Arc<Adjust>>,
}

type Adjust = dyn Fn(&mut Flags) + Send + Sync;

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            binary,
            name,
            defaults,
            flags,
            providers,
            webhooks,
            subcommands: _,
            adjust: _,
        } = self;
        let mut debug = f.debug_struct("Program");
        debug
            .field("binary", binary)
            .field("name", name)
            .field("defaults", defaults)
            .field("flags", flags);
        debug
            .field("providers", providers)
            .field("webhooks", webhooks);
        debug.finish_non_exhaustive()
    }
}

/// Environment variable that presets the cloud provider where the name of the program tells no vendor (D-12).
pub(crate) const PROVIDER_VARIABLE: &str = "CCM_CLOUD_PROVIDER";

/// Flags of the wrapper that starts the program in some vendors' images and redirects its log (D-372).
const WRAPPER_FLAGS: [&str; 3] = ["log-file", "also-stdout", "redirect-stderr"];
/// The flag of the wrapper that this program accepts with a notice.
const WRAPPER_LOG: &str = "log-file";

/// The manifest of keepalived's program probes this port without TLS (D-370).
const PROBED: &[(&str, &str)] = &[("health-bind-address", ":10252")];
const SKIP_LOOKUP: &[(&str, &str)] = &[("authentication-skip-lookup", "true")];

/// Name of the program in published manifests, its provider, and further defaults of its `main`. This program's own
/// name has no row; the manifests of azure and gcp use it as well and name their provider.
type Row = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);
pub(super) const PROGRAMS: [Row; 24] = [
    ("alibaba-cloud-controller-manager", "alibabacloud", &[]),
    ("alicloud-cloud-controller-manager", "alicloud", &[]),
    ("aws-cloud-controller-manager", "aws", &[]),
    ("azure-cloud-controller-manager", "azure", &[]),
    ("cce-cloud-controller-manager", "cce", &[]),
    ("ccm-linode", "linode", SKIP_LOOKUP),
    (
        "digitalocean-cloud-controller-manager",
        "digitalocean",
        SKIP_LOOKUP,
    ),
    ("exoscale-cloud-controller-manager", "exoscale", &[]),
    ("gce-cloud-controller-manager", "gce", &[]),
    ("gcp-cloud-controller-manager", "gce", &[]),
    ("hcloud-cloud-controller-manager", "hcloud", &[]),
    ("keepalived-cloud-controller-manager", "keepalived", PROBED),
    ("keepalived-cloud-provider", "keepalived", PROBED),
    ("linode-cloud-controller-manager", "linode", SKIP_LOOKUP),
    (
        "linode-cloud-controller-manager-linux-amd64",
        "linode",
        SKIP_LOOKUP,
    ),
    (
        "linode-cloud-controller-manager-linux-arm64",
        "linode",
        SKIP_LOOKUP,
    ),
    ("mycloud-cloud-controller-manager", "mycloud", &[]),
    ("oci-cloud-controller-manager", "oci", &[]),
    ("openstack-cloud-controller-manager", "openstack", &[]),
    ("rancher-cloud-controller-manager", "rancher", &[]),
    ("scaleway-cloud-controller-manager", "scaleway", &[]),
    ("tencentcloud-cloud-controller-manager", "tencentcloud", &[]),
    ("vsphere-cloud-controller-manager", "vsphere", &[]),
    ("vultr-cloud-controller-manager", "vultr", SKIP_LOOKUP),
];

/// Providers of [`PROGRAMS`] that this project does not have: their vendors embed the manager. The image has no links for
/// them.
pub(super) const PROVIDERS_OF_OTHERS: [&str; 4] = ["exoscale", "scaleway", "vsphere", "vultr"];

/// Name of the program as a plugin: kubectl runs it for `kubectl ccm`. The plugin has the subcommands only.
pub(super) const PLUGIN: &str = "kubectl-ccm";

impl Default for Program {
    fn default() -> Self {
        Self::new(cloud_provider::names::MANAGER_NAME)
    }
}

impl Program {
    /// Returns a program of this name, with the standard defaults.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            binary: name.to_owned(),
            name,
            defaults: Vec::new(),
            flags: Vec::new(),
            providers: Vec::new(),
            webhooks: Vec::new(),
            subcommands: Vec::new(),
            adjust: None,
        }
    }

    /// Returns the program for the name in the first argument, with the defaults of the vendor's program of that name.
    #[must_use]
    pub fn called(argument: &OsStr) -> Self {
        Self::called_with_preset(argument, "")
    }

    /// Returns the program that these arguments call, and the arguments that begin with its name (D-12). The program is the
    /// first argument, or the second if that is the path of a known program. If its name tells no vendor, it presets the
    /// provider `preset`, with the defaults of its vendor's program; an empty name presets none.
    #[must_use]
    pub fn called_by(arguments: Vec<OsString>, preset: &str) -> (Self, Vec<OsString>) {
        let arguments = without_entry_point(arguments, cloud_provider::names::MANAGER_NAME);
        let name = arguments
            .first()
            .map(OsString::as_os_str)
            .unwrap_or_default();
        (Self::called_with_preset(name, preset), arguments)
    }

    /// Returns the program for the name in the first argument; see [`called_by`](Self::called_by).
    pub(crate) fn called_with_preset(argument: &OsStr, provider: &str) -> Self {
        let binary = base_name(argument);
        match PROGRAMS.into_iter().find(|(name, ..)| *name == binary) {
            Some((name, provider, defaults)) => Self::new(name).with_provider(provider, defaults),
            None if binary.is_empty() => Self::default().with_preset(provider),
            None if binary == PLUGIN => Self::new(PLUGIN).with_preset(provider),
            None => Self {
                binary,
                ..Self::default()
            }
            .with_preset(provider),
        }
    }

    /// Presets the kubeconfig that kubectl reads, if this program is its plugin: the first file of `KUBECONFIG` that exists,
    /// or `~/.kube/config`.
    pub(crate) fn with_configuration_of_kubectl(
        self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        if self.name != PLUGIN {
            return self;
        }
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let candidates: Vec<_> = match (set("KUBECONFIG"), set("HOME")) {
            (Some(paths), _) => std::env::split_paths(&paths).collect(),
            (None, Some(home)) => vec![Path::new(&home).join(".kube/config")],
            (None, None) => Vec::new(),
        };
        let found = candidates.into_iter().find(|path| path.is_file());
        match found.as_deref().and_then(Path::to_str) {
            // Defaults live as long as the program. This happens once in a process.
            Some(path) => self.with_default("kubeconfig", path.to_owned().leak()),
            None => self,
        }
    }

    /// Presets a provider of any name, with the defaults of its vendor's program.
    fn with_preset(self, provider: &str) -> Self {
        match PROGRAMS
            .into_iter()
            .find(|(_, known, _)| *known == provider)
        {
            Some((_, provider, defaults)) => self.with_provider(provider, defaults),
            None if provider.is_empty() => self,
            // Defaults live as long as the program. This happens once in a process.
            None => self.with_default("cloud-provider", provider.to_owned().leak()),
        }
    }

    fn with_provider(
        self,
        provider: &'static str,
        defaults: &[(&'static str, &'static str)],
    ) -> Self {
        let program = self.with_default("cloud-provider", provider);
        defaults.iter().fold(program, |program, (flag, value)| {
            program.with_default(flag, value)
        })
    }

    /// Replaces a flag's default. An unknown flag has no effect.
    #[must_use]
    pub fn with_default(mut self, flag: &'static str, value: &'static str) -> Self {
        self.defaults.push((flag, value));
        self
    }

    /// Adds a vendor's own flag, in the last section of the help.
    ///
    /// ```
    /// use manager::flags::{Flags, Parsed, Program, VendorFlag};
    ///
    /// let zone = VendorFlag { name: "acme-zone", default: "one", help: "The zone.", secret: false };
    /// let program = Program::new("acme-ccm").with_default("cloud-provider", "acme").with_flag(zone);
    /// let Parsed::Flags(flags) = Flags::parse_as(&program, ["x".into(), "--acme-zone=two".into()]) else { panic!() };
    /// assert_eq!(flags.value("acme-zone"), Some("two"));
    /// ```
    #[must_use]
    pub fn with_flag(mut self, flag: VendorFlag) -> Self {
        self.flags.push(flag);
        self
    }

    /// Adds names of cloud providers, for completions of `--cloud-provider`.
    #[must_use]
    pub fn with_providers(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.providers.extend(names);
        self
    }

    /// Adds a webhook's name to those that `--webhooks` accepts (APP-140). The manager adds the names of its own
    /// webhooks ([`Manager::webhook`](crate::Manager::webhook)).
    #[must_use]
    pub fn with_webhook(mut self, name: &'static str) -> Self {
        if !self.webhooks.contains(&name) {
            self.webhooks.push(name);
        }
        self
    }

    /// Adds a subcommand that the program's `main` runs itself, for completions.
    #[must_use]
    pub(crate) fn with_subcommand(mut self, command: Command) -> Self {
        self.subcommands.push(command);
        self
    }

    /// Sets a function that changes the flags between parsing and validation (FLAG-16).
    #[must_use]
    pub fn adjusted(mut self, adjust: impl Fn(&mut Flags) + Send + Sync + 'static) -> Self {
        self.adjust = Some(Arc::new(adjust));
        self
    }

    /// Returns the name of the program in help and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Adds the program's defaults and flags to a clap command.
    pub(super) fn apply(&self, command: Command) -> Command {
        let command = self.flags.iter().fold(command, |command, flag| {
            let with_help = |argument: Arg| {
                let argument = argument.hide(false).help(flag.help).help_heading(self.name);
                argument.default_value(flag.default).value_name("VALUE")
            };
            // A flag that is accepted from other vendors' manifests now belongs to this vendor.
            if command
                .get_arguments()
                .any(|argument| argument.get_id() == flag.name)
            {
                command.mut_arg(flag.name, with_help)
            } else {
                command.arg(with_help(Arg::new(flag.name).long(flag.name)))
            }
        });
        command.mut_args(|argument| {
            let default = self
                .defaults
                .iter()
                .rev()
                .find(|(flag, _)| argument.get_long() == Some(flag));
            match default {
                Some((_, value)) => argument.default_value(*value),
                None => argument,
            }
        })
    }
}

/// Returns the base name of a program's path.
fn base_name(path: &OsStr) -> String {
    Path::new(path)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the arguments as if the program had been called by the path that they begin with. Manifests for an image
/// without an entry point name the program there; this image's entry point is then the first argument, and the name of
/// the program the second. Flags of a wrapper may precede the path. `own` is the name of the program itself. Other
/// arguments are returned unchanged.
pub(crate) fn without_entry_point(arguments: Vec<OsString>, own_name: &str) -> Vec<OsString> {
    let is_program = |name: &str| {
        name == own_name || name == PLUGIN || PROGRAMS.iter().any(|(known, ..)| *known == name)
    };
    let wrapper = arguments
        .iter()
        .skip(1)
        .take_while(|argument| wrapper_flag(argument).is_some())
        .count();
    let (before, rest) = arguments
        .split_at_checked(1 + wrapper)
        .unwrap_or((&arguments, &[]));
    let Some((program, flags)) = rest
        .split_first()
        .filter(|(program, _)| is_program(&base_name(program)))
    else {
        return arguments;
    };
    let log = before
        .iter()
        .filter(|argument| wrapper_flag(argument) == Some(WRAPPER_LOG));
    std::iter::once(program)
        .chain(log)
        .chain(flags)
        .cloned()
        .collect()
}

/// Returns the name of a wrapper's flag, if the argument is one with its value.
fn wrapper_flag(argument: &OsStr) -> Option<&'static str> {
    let text = argument.to_str()?.strip_prefix('-')?;
    let name = text.strip_prefix('-').unwrap_or(text).split('=').next()?;
    WRAPPER_FLAGS.into_iter().find(|known| *known == name)
}
