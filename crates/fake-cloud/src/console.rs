//! The program of a fake on a port: a console that changes and shows the cloud by commands on standard input.

use std::io::BufRead;

use axum::Router;
use serde_json::{Value, json};

use crate::cloud::{Cloud, Handle};
use crate::port::Port;

/// Returns an argument of the program, counted from 1; `otherwise` if there is none, or if it cannot be read.
#[must_use]
pub fn argument<T: std::str::FromStr>(at: usize, otherwise: T) -> T {
    std::env::args()
        .nth(at)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(otherwise)
}

/// Serves `router` until the program is killed, and [executes](execute) the lines that arrive on standard input. Each is
/// confirmed by a line `done COMMAND`.
///
/// # Errors
/// None: it does not return.
pub async fn serve<C: Cloud>(
    port: Port,
    router: Router,
    fake: Handle<C>,
    command: impl Fn(&mut C, &str, &str) -> Option<Value> + Send + 'static,
) -> std::io::Result<()> {
    let _served = port.serve(router);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match execute(&fake, &line, &command) {
                Ok(()) => println!("done {line}"),
                Err(reason) => eprintln!("{line:?}: {reason}"),
            }
        }
    });
    std::future::pending().await
}

/// Executes a command. `requests FILE` writes the requests since the last time to a file, a line of JSON each. All others
/// are those of `command`, which gets the cloud, the name of the command and its argument, and returns the JSON that is
/// written to the file of the argument, if it is not null; `None` stands for a command that it does not know.
///
/// # Errors
/// A text about an unknown command, or about a file that cannot be written.
pub fn execute<C: Cloud>(
    fake: &Handle<C>,
    line: &str,
    command: impl Fn(&mut C, &str, &str) -> Option<Value>,
) -> Result<(), String> {
    let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
    let text = if name == "requests" {
        let requests = fake.fault_injector().requests().into_iter();
        fake.fault_injector().forget_requests();
        let line = |object: Value| object.to_string() + "\n";
        requests
            .map(|request| json!({"route": request.route, "path": request.path, "query": request.query, "body": request.body, "status": request.status}))
            .map(line)
            .collect()
    } else {
        match command(&mut fake.lock(), name, argument) {
            None => return Err("unknown command".to_owned()),
            Some(Value::Null) => return Ok(()),
            Some(value) => format!("{value:#}"),
        }
    };
    std::fs::write(argument, text).map_err(|error| error.to_string())
}

/// Reads the file that a command names; null if it is no JSON.
#[must_use]
pub fn read(path: &str) -> Value {
    std::fs::read(path)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}
