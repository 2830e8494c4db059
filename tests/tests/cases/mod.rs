//! The runner of the case files.
//!
//! | module | what it is |
//! |---|---|
//! | [`arguments`] | the command line, which is that of any Rust test |
//! | [`files`] | the case files: found, read, checked |
//! | [`schema`] | what the files' fields mean; whatever is not known is an error |
//! | [`script`] | a scripted provider from a case |
//! | [`services`] | Kubernetes API, caches, provider and events around Services |
//! | [`world`] | Kubernetes API, cache, provider and events around one Node |
//! | [`api`] | the few requests on Nodes and Services that the controllers make, and failures of them |
//! | [`comparison`] | what was expected, and what happened |
//! | [`suites`] | one module for each suite |
//! | [`report`] | what is printed |

mod api;
pub(crate) mod arguments;
mod comparison;
pub(crate) mod files;
mod report;
mod schema;
mod script;
mod services;
mod suites;
mod world;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use arguments::Arguments;
use files::{Case, Sources};
use report::Report;
use suites::{RUNNABLE, Run};

/// Longer, in the case's own (virtual) time, no case takes: the longest retries end after seconds.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs the selected cases and prints the report. Whether all is well.
///
/// # Errors
/// If nothing can be printed.
pub(crate) fn run(
    arguments: &Arguments,
    sources: &Sources,
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    let found = files::load(sources);
    let mut report = Report::new(found.problems);
    let selected = |case: &&Case| arguments.selects(&case.suite, &case.id);
    if arguments.list {
        let cases = found.cases.iter().filter(selected);
        return report.list(cases, arguments.terse, out);
    }
    for (suite, run) in RUNNABLE {
        for case in found
            .cases
            .iter()
            .filter(selected)
            .filter(|case| case.suite == suite)
        {
            // With `--ignored`, no case runs: none is ignored.
            if !arguments.only_ignored {
                report.ran(case, run_case(case, run));
            }
        }
    }
    report.print(out)
}

/// Runs a case in a world of its own, whose time is virtual.
fn run_case(case: &Case, run: Run) -> Result<()> {
    let attempt = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        runtime.block_on(async {
            let (given, expect) = case.parts()?;
            match tokio::time::timeout(PATIENCE, run(given, expect)).await {
                Ok(comparison) => comparison?.conclude(),
                Err(_) => bail!("it does not come to an end"),
            }
        })
    };
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(anyhow!("it panicked: {}", text.unwrap_or("without a text")))
    })
}
