//! Flags of the subcommands that take all of the manager's flags and print a report: `plan`, `doctor`, `explain` and
//! `orphans`.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, CommandFactory, FromArgMatches, Parser};
use cloud_provider::Fence;
use runtime::client::ClientOptions;
use runtime::go_duration::GoDuration;

use super::values::duration;
use super::{Flags, Parsed, Program, parse};
use crate::controller_set::Settings;

/// The value of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Text for people to read.
    Text,
    /// JSON for programs to parse.
    Json,
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("{other:?} is not one of text, json")),
        }
    }
}

/// Flags of the manager, and flags of the report.
#[derive(Parser, Debug)]
pub(crate) struct ReportFlags {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// Format of the output: text or json.
    #[arg(long, default_value = "text", value_name = "FORM", value_parser = str::parse::<Output>, help_heading = "Report")]
    pub(crate) output: Output,
    /// Timeout of a request to the API server or the cloud; 10s by default, but that of the manager for orphans --delete.
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = "Report")]
    timeout: Option<GoDuration>,
    /// If set, the manager's own timeouts apply unless `--timeout` is set, because a change must not be given up early.
    #[arg(skip)]
    pub(crate) has_patience: bool,
}

/// Default of `--timeout`. A report is interactive, so a slower server counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(10);

fn timeout(text: &str) -> Result<GoDuration, String> {
    match duration(text)? {
        timeout if timeout.is_positive() => Ok(timeout),
        _ => Err("write a time above zero, such as 10s".to_owned()),
    }
}

impl ReportFlags {
    /// Returns the timeout of a request; `None` for the manager's own timeouts.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let default = if self.has_patience {
            None
        } else {
            Some(TIMEOUT)
        };
        self.timeout.map(GoDuration::to_std_or_zero).or(default)
    }

    /// Returns the settings of the manager with this fence and the timeout.
    pub(crate) fn settings(&self, fence: Fence) -> Settings {
        let mut settings = Settings {
            fence: Some(fence),
            ..self.flags.configuration().settings()
        };
        if let Some(timeout) = self.timeout() {
            let within = |options: &ClientOptions| ClientOptions {
                request_timeout: Some(timeout),
                ..options.clone()
            };
            settings.clients = settings.clients.with(within);
            settings.call_timeout = Some(timeout);
        }
        settings
    }
}

impl AsMut<Flags> for ReportFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

/// Flags of a report about one object, and the object.
#[derive(Parser, Debug)]
pub(crate) struct ObjectFlags {
    /// Kind of the object: node or service.
    #[arg(value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Name of the object; for a Service also NAMESPACE/NAME.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Namespace of the Service; default if empty.
    #[arg(
        short = 'n',
        long,
        default_value = "",
        value_name = "NAMESPACE",
        help_heading = "Report"
    )]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) report: ReportFlags,
}

impl AsMut<Flags> for ObjectFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.report.flags
    }
}

/// Sections of flags that have no effect on a report.
const UNRELATED: [&str; 7] = [
    "Debugging",
    "Leader-migration",
    "Webhook",
    "Webhook serving",
    "Secure serving",
    "Authentication",
    "Authorization",
];
const OTHER_FLAGS: &str = "All other flags of the manager are accepted, too, so that the command line of a manifest works as it is.";

/// A subcommand that prints a report.
pub(crate) struct ReportCommand {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) after_help: &'static str,
}

impl ReportCommand {
    /// Parses and validates the subcommand's arguments. The first argument is the program's name.
    pub(crate) fn parse(
        &self,
        program: &Program,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Parsed<ReportFlags> {
        self.parse_as(program, arguments)
    }

    /// Parses the arguments of a subcommand that has more flags than those of a report.
    pub(crate) fn parse_as<T: CommandFactory + FromArgMatches + AsMut<Flags>>(
        &self,
        program: &Program,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Parsed<T> {
        let name = format!("{} {}", program.name(), self.name);
        let concerns = |flag: &Arg| {
            !flag
                .get_help_heading()
                .is_some_and(|section| UNRELATED.contains(&section))
        };
        let command = T::command()
            .name(self.name)
            .bin_name(&name)
            .about(self.about)
            .after_help(format!("{}\n{OTHER_FLAGS}", self.after_help))
            .mut_args(|flag| {
                if concerns(&flag) {
                    flag
                } else {
                    flag.hide(true)
                }
            })
            .disable_help_subcommand(true)
            .args_override_self(true)
            .max_term_width(120);
        parse(program, command, &name, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::VendorFlag;

    const REPORT: ReportCommand = ReportCommand {
        name: "look",
        about: "Looks.",
        after_help: "",
    };

    #[test]
    fn a_vendors_program_has_its_defaults_and_flags_here_too() {
        let zone = VendorFlag {
            name: "acme-zone",
            default: "one",
            help: "The zone.",
            secret: false,
        };
        let program = Program::new("acme-ccm")
            .with_default("cloud-provider", "acme")
            .with_flag(zone);
        let program = program.adjusted(|flags| flags.cloud.cluster_name = "adjusted".to_owned());
        let parse =
            |arguments: &[&str]| REPORT.parse(&program, arguments.iter().map(OsString::from));
        let Parsed::Flags(ReportFlags { flags, output, .. }) =
            parse(&["x", "--acme-zone=two", "--output=json"])
        else {
            panic!()
        };
        assert_eq!(
            (
                flags.cloud.cloud_provider.as_str(),
                flags.value("acme-zone")
            ),
            ("acme", Some("two"))
        );
        assert_eq!(
            (flags.cloud.cluster_name.as_str(), output),
            ("adjusted", Output::Json)
        );
        let Parsed::Say(help) = parse(&["x", "--help"]) else {
            panic!()
        };
        assert!(
            help.contains("acme-ccm look") && help.contains("--acme-zone"),
            "{help}"
        );
        let Parsed::Wrong(text) = parse(&["x", "--cloud-provider=", "--node-monitor-period=0s"])
        else {
            panic!()
        };
        assert!(
            text.contains("--cloud-provider cannot be empty")
                && text.contains("node-monitor-period"),
            "{text}"
        );
    }

    #[test]
    fn the_object_stands_before_or_behind_the_flags() {
        let program = Program::new("acme-ccm").with_default("cloud-provider", "acme");
        let parse = |line: &str| {
            REPORT.parse_as::<ObjectFlags>(&program, line.split(' ').map(OsString::from))
        };
        for line in [
            "x service web -n shop --v=2",
            "x --v=2 --namespace=shop service web",
            "x service -n=shop web",
        ] {
            let Parsed::Flags(ObjectFlags {
                kind,
                name,
                namespace,
                ..
            }) = parse(line)
            else {
                panic!("{line}")
            };
            assert_eq!(
                (kind.as_deref(), name.as_deref(), &*namespace),
                (Some("service"), Some("web"), "shop"),
                "{line}"
            );
        }
        let Parsed::Wrong(text) = parse("x service web more") else {
            panic!()
        };
        assert!(
            text.contains("does not take any arguments, got [\"more\"]"),
            "{text}"
        );
    }

    #[test]
    fn a_request_of_a_report_has_ten_seconds_unless_a_change_depends_on_it() {
        let program = Program::new("acme-ccm").with_default("cloud-provider", "acme");
        let parse = |arguments: &[&str]| match REPORT
            .parse(&program, arguments.iter().map(OsString::from))
        {
            Parsed::Flags(report) => report,
            other => panic!("{arguments:?}: {other:?}"),
        };
        assert_eq!(parse(&["x"]).timeout(), Some(Duration::from_secs(10)));
        assert_eq!(
            parse(&["x"]).settings(Fence::default()).call_timeout,
            Some(Duration::from_secs(10))
        );
        assert_eq!(
            parse(&["x", "--timeout=3s"]).timeout(),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            ReportFlags {
                has_patience: true,
                ..parse(&["x"])
            }
            .timeout(),
            None
        );
    }

    #[test]
    fn the_forms_are_text_and_json() {
        assert_eq!("json".parse(), Ok(Output::Json));
        assert_eq!(
            "yaml".parse::<Output>(),
            Err("\"yaml\" is not one of text, json".to_owned())
        );
    }
}
