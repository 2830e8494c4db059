//! The subcommand `check`: parses the flags, prints the report and returns the exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use cloud_provider::{CloudProvider, Environment, Fence, Registry, Setup, visible};

use super::documents::{self, Document, Object};
use super::input::{self, Input};
use super::report::{Finding, Report, Severity};
use super::{SUBCOMMAND, stored};
use crate::endpoints::review_service;
use crate::flags::{CheckFlags, Flags, Output, Parsed, Program};
use crate::logging;
use crate::output::{print, print_error, print_json};
use crate::threads::block_on;

/// Exit code for unusable input.
const UNUSABLE: u8 = 2;

/// Runs the subcommand. The first argument is the program's name.
pub(crate) fn main(
    providers: &Registry,
    program: &Program,
    arguments: impl IntoIterator<Item = OsString>,
) -> ExitCode {
    let check = match CheckFlags::parse(program, SUBCOMMAND, arguments) {
        Parsed::Flags(check) => check,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => {
            print_error(&text);
            return UNUSABLE.into();
        }
    };
    if check.flags.verbosity > 0 {
        logging::init_for_report(check.flags.verbosity);
    }
    block_on(async {
        let mut report = Report::new(&check.flags.cloud.cloud_provider, check.strict);
        match provider(&check.flags, providers) {
            Ok(provider) => run(&check, &*provider, &mut report),
            Err(error) => report.errors.push(error),
        }
        if check.output == Output::Json {
            return print_json(&report.json(), report.exit_code().into());
        }
        report
            .errors
            .iter()
            .for_each(|error| print_error(&visible(error)));
        print(&report.text(), report.exit_code().into())
    })
}

/// Creates the provider without a credential and with a fence that refuses every change.
fn provider(flags: &Flags, providers: &Registry) -> Result<Arc<dyn CloudProvider>, String> {
    let configuration = flags.configuration();
    let setup = Setup {
        fence: Fence::closed("check changes nothing"),
        environment: Environment::of_process().offline(),
        cluster_cidr: Some(configuration.route.cluster_cidr),
        adoptable_tag: configuration.cloud.adoptable_tag,
        flags: configuration.cloud.flags,
        ..Setup::default()
    };
    let name = &flags.cloud.cloud_provider;
    let provider = providers
        .init(name, flags.cloud.cloud_config.as_deref(), setup)
        .map_err(|err| err.to_string())?;
    let provider = provider
        .ok_or_else(|| format!("--cloud-provider={name} is not a provider of this binary"))?;
    match provider.load_balancers() {
        Some(_) => Ok(provider),
        None => Err(format!(
            "cloud provider {name:?} runs no load balancers with this configuration"
        )),
    }
}

fn run(check: &CheckFlags, provider: &dyn CloudProvider, report: &mut Report) {
    let files = check.files();
    if files.is_empty() {
        report.errors.push(
            "no files: name files or directories with -f, or - for standard input".to_owned(),
        );
    }
    for Input { name, text } in input::read(&files, check.recursive) {
        match text {
            Ok(text) => documents::split(&text).iter().for_each(|document| {
                examine(check, provider, &name, document, report);
            }),
            Err(error) => report.errors.push(error),
        }
    }
}

/// Reviews the Services of one document.
fn examine(
    check: &CheckFlags,
    provider: &dyn CloudProvider,
    file: &str,
    document: &Document<'_>,
    report: &mut Report,
) {
    let objects = match document.objects() {
        Ok(objects) => objects,
        Err(error) => return report.errors.push(format!("{file}: {error}")),
    };
    let options = check.flags.configuration().options.service;
    let mut places = document.places();
    for Object {
        is_service,
        name,
        value,
    } in objects
    {
        let at = places.of(&value);
        if !is_service {
            report.skipped += 1;
            continue;
        }
        let mut found = |severity, text: String| {
            let line = at.line(&text);
            let file = file.to_owned();
            let service = name.clone();
            report.findings.push(Finding {
                file,
                line,
                document: document.index,
                service,
                severity,
                text,
            });
        };
        let service = match stored::service(value) {
            Ok(service) => service,
            Err(error) => {
                found(Severity::Error, error);
                report.services += 1;
                continue;
            }
        };
        let Some(review) = review_service(provider, &service, &options) else {
            report.skipped += 1;
            continue;
        };
        review
            .errors
            .into_iter()
            .for_each(|text| found(Severity::Error, text));
        review
            .warnings
            .into_iter()
            .for_each(|text| found(Severity::Warning, text));
        report.services += 1;
    }
}
