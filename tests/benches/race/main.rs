//! The race: this program, and if wanted another one, against a real kube-apiserver and a fake cloud.
//!
//! ```text
//! cargo bench -p ccm-tests --bench race -- --script PATH/peer.sh --nodes 1000 --services 200 --down 100 --steady 60s
//!     [--cloud hcloud]  the cloud: hcloud or digitalocean
//!     [--binary PATH]   this program; by default its build with the profile dist, which is made first
//!     [--peer PATH]     another cloud controller manager for this cloud: it runs first, and its figures stand beside ours
//!     [--then PATH]     takes over from this program when the load balancers stand; by default this program itself
//!     [--latency 50ms]  of the fake cloud
//!     [-- FLAGS]        of both programs
//! ```
//!
//! The script starts the server, the fake cloud and the program, and prints a JSON line for each phase. Its own writes,
//! one for each Service or Node, are subtracted. Each line of the report is a figure with its requirement; the exit
//! code is 1 if one is missed. Times are reported, and compared with the other program's only if it ran: no other load
//! may run meanwhile.

mod arguments;
mod phases;
#[path = "../scale/release.rs"]
mod release;
mod requirements;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::Arguments;

fn main() -> ExitCode {
    if !std::env::args().any(|word| word == "--bench") {
        // `cargo test --all-targets` runs benchmarks, too; this one is no test.
        return ExitCode::SUCCESS;
    }
    match race() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("race: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn race() -> Result<bool> {
    let arguments = Arguments::of_process()?;
    let ours = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => release::binary(&[])?,
    };
    let peer = arguments
        .peer
        .as_deref()
        .map(|peer| phases::run(&arguments, peer, None))
        .transpose()?;
    let then = arguments.then.as_deref().unwrap_or(&ours);
    let run = phases::run(&arguments, &ours, Some(then))?;
    let report = requirements::judge(&arguments, &run, peer.as_ref());
    print!("{report}");
    Ok(report.holds())
}
