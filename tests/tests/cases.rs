//! Runs the case files of `tests/cases` through the production decisions and shells.
//!
//! ```text
//! cargo test -p ccm-tests --test cases                  # all
//! cargo test -p ccm-tests --test cases lifecycle        # one suite
//! cargo test -p ccm-tests --test cases NIN-030          # one case
//! CCM_EXTRA_CASES=/my/cases:/more cargo test -p ccm-tests --test cases
//! ```
//!
//! `CCM_EXTRA_CASES` names further directories, separated by `:`, whose YAML files (of the same schema) are run too.

#[path = "cases/mod.rs"]
mod cases;

use std::process::ExitCode;

use cases::arguments::Arguments;
use cases::files::Sources;

fn main() -> ExitCode {
    let outcome = Arguments::parse(std::env::args().skip(1)).and_then(|arguments| {
        let extra = std::env::var("CCM_EXTRA_CASES").unwrap_or_default();
        let sources = Sources::own_and(&extra);
        Ok(cases::run(
            &arguments,
            &sources,
            &mut std::io::stdout().lock(),
        )?)
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(101),
        Err(error) => {
            eprintln!("cases: {error:#}");
            ExitCode::from(101)
        }
    }
}
