//! Suite of request/response scenarios for two API servers: the embedded one and a real kube-apiserver.
//!
//! Scenarios are data (`tests/equal-answers/*.yaml`, one file a semantics). A real server's responses, with values
//! masked that differ between any two servers (UIDs, times, versions, …), are recorded next to them in `answers/`.
//!
//! * Always: the embedded server, in this process, must give the recorded answers.
//! * With `CCM_TEST_KUBECONFIG`: so must that real server, and both must answer alike.
//! * With `CCM_RECORD_ANSWERS=1` too: the real server's answers are recorded instead.
//!
//! The real server must run without kube-controller-manager (its loops would change the objects), and the scenarios
//! marked `needs: compacted` want a server that was restarted after its history was compacted;
//! `CCM_TEST_FAULTS=.../fault.sh` lets the suite do both itself.
//!
//! Arguments: any words select the scenarios whose `semantics/id` contains one of them; `--list` prints them;
//! `--print` prints the embedded server's masked answers, `--answers` the recorded ones.

mod answers;
mod diff;
mod mask;
mod pointer;
mod real;
mod runner;
mod scenario;
mod suite;

use std::process::ExitCode;

fn main() -> ExitCode {
    match suite::main(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("equal_answers: {error:#}");
            ExitCode::FAILURE
        }
    }
}
