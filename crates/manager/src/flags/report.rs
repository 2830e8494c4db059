//! Subcommands that take all of the manager's flags, change nothing, and print a report: `plan`, `doctor`.

use std::ffi::OsString;
use std::str::FromStr;

use clap::{Arg, CommandFactory as _, Parser};

use super::{Flags, Parsed, Program, parse};

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
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

/// All flags of the manager, and the form of the report.
#[derive(Parser, Debug)]
pub(crate) struct ReportFlags {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// Form of the output: text or json.
    #[arg(long, default_value = "text", value_name = "FORM", value_parser = str::parse::<Output>, help_heading = "Report")]
    pub(crate) output: Output,
}

impl AsMut<Flags> for ReportFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

/// Sections of flags that say nothing about a report.
const UNRELATED: [&str; 7] = [
    "Debugging",
    "Leader-migration",
    "Webhook",
    "Webhook serving",
    "Secure serving",
    "Authentication",
    "Authorization",
];
const OTHER_FLAGS: &str =
    "All other flags of the manager are accepted, too, so that the command line of a manifest works as it is.";

/// One of these subcommands.
pub(crate) struct ReportCommand {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) after_help: &'static str,
}

impl ReportCommand {
    /// Parses and validates its arguments, as this program; the program's name comes first.
    pub(crate) fn parse(
        &self,
        program: &Program,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Parsed<ReportFlags> {
        let name = format!("{} {}", program.name(), self.name);
        let concerns = |flag: &Arg| !flag.get_help_heading().is_some_and(|section| UNRELATED.contains(&section));
        let command = ReportFlags::command()
            .name(self.name)
            .bin_name(&name)
            .about(self.about)
            .after_help(format!("{}\n{OTHER_FLAGS}", self.after_help))
            .mut_args(|flag| if concerns(&flag) { flag } else { flag.hide(true) })
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

    const REPORT: ReportCommand = ReportCommand { name: "look", about: "Looks.", after_help: "" };

    #[test]
    fn a_vendors_program_has_its_defaults_and_flags_here_too() {
        let zone = VendorFlag { name: "acme-zone", default: "one", help: "The zone.", secret: false };
        let program = Program::new("acme-ccm").with_default("cloud-provider", "acme").with_flag(zone);
        let program = program.adjusted(|flags| flags.cloud.cluster_name = "adjusted".to_owned());
        let parse = |arguments: &[&str]| REPORT.parse(&program, arguments.iter().map(OsString::from));
        let Parsed::Flags(ReportFlags { flags, output }) = parse(&["x", "--acme-zone=two", "--output=json"]) else {
            panic!()
        };
        assert_eq!((flags.cloud.cloud_provider.as_str(), flags.value("acme-zone")), ("acme", Some("two")));
        assert_eq!((flags.cloud.cluster_name.as_str(), output), ("adjusted", Output::Json));
        let Parsed::Say(help) = parse(&["x", "--help"]) else { panic!() };
        assert!(help.contains("acme-ccm look") && help.contains("--acme-zone"), "{help}");
        let Parsed::Wrong(text) = parse(&["x", "--cloud-provider=", "--node-monitor-period=0s"]) else { panic!() };
        assert!(text.contains("--cloud-provider cannot be empty") && text.contains("node-monitor-period"), "{text}");
    }

    #[test]
    fn the_forms_are_text_and_json() {
        assert_eq!("json".parse(), Ok(Output::Json));
        assert_eq!("yaml".parse::<Output>(), Err("\"yaml\" is not one of text, json".to_owned()));
    }
}
