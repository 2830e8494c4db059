//! The command line, as the test harness of Rust has it.

use anyhow::{Result, bail};

/// Selection of cases on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Words of which any in a case's name selects it; without words, all cases are selected.
    filters: Vec<String>,
    /// Words that deselect a case.
    skip: Vec<String>,
    /// Words must be the whole name, the suite or the id.
    exact: bool,
    /// Print the names and run nothing.
    pub(crate) list: bool,
    /// Print nothing but the names.
    pub(crate) terse: bool,
    /// Run only what is ignored otherwise: nothing.
    pub(crate) only_ignored: bool,
}

impl Arguments {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// An option that no test harness has, or one without its value.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut arguments = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (option, inline) = match word.split_once('=') {
                Some((option, value)) if option.starts_with('-') => {
                    (option.to_owned(), Some(value.to_owned()))
                }
                _ => (word, None),
            };
            let mut value = || match inline.clone().or_else(|| words.next()) {
                Some(value) => Ok(value),
                None => bail!("option {option} needs a value"),
            };
            match option.as_str() {
                "--exact" => arguments.exact = true,
                "--list" => arguments.list = true,
                "--ignored" => arguments.only_ignored = true,
                "--skip" => arguments.skip.push(value()?),
                "--format" => arguments.terse = value()? == "terse",
                // Ignored flags: the harness captures, colours and times nothing, and runs nothing in parallel.
                "--test-threads" | "--color" | "--logfile" | "--shuffle-seed" | "-Z" => {
                    drop(value()?);
                }
                "--include-ignored"
                | "--nocapture"
                | "--no-capture"
                | "--show-output"
                | "--quiet"
                | "-q"
                | "--test"
                | "--bench"
                | "--report-time"
                | "--ensure-time"
                | "--shuffle"
                | "--exclude-should-panic"
                | "--force-run-in-process"
                | "--fail-fast" => {}
                unstable if unstable.starts_with("-Z") => {}
                unknown if unknown.starts_with('-') => bail!("unknown option {unknown}"),
                _ => arguments.filters.push(option),
            }
        }
        Ok(arguments)
    }

    /// Returns `true` if this case is selected. Its name is `SUITE::ID`.
    pub(crate) fn selects(&self, suite: &str, id: &str) -> bool {
        let name = format!("{suite}::{id}");
        let matches = |word: &String| {
            if self.exact {
                *word == name || word == suite || word == id
            } else {
                name.contains(word.as_str())
            }
        };
        (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skip.iter().any(matches)
    }
}
