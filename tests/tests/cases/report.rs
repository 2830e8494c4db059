//! Printed report of the cases.

use std::io::{Result, Write};

use super::files::Case;

/// Collects results and prints them.
#[derive(Debug)]
pub(crate) struct Report {
    problems: Vec<String>,
    failures: Vec<String>,
    /// Suite, passed, failed; in the order in which they were run.
    suites: Vec<(String, usize, usize)>,
}

impl Report {
    /// Creates a report of a run whose files have these problems.
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self {
            problems,
            failures: Vec::new(),
            suites: Vec::new(),
        }
    }

    /// Records the result of a case.
    pub(crate) fn ran(&mut self, case: &Case, result: anyhow::Result<()>) {
        if self
            .suites
            .last()
            .is_none_or(|(name, ..)| *name != case.suite)
        {
            self.suites.push((case.suite.clone(), 0, 0));
        }
        let Some((_, passed, failed)) = self.suites.last_mut() else {
            return;
        };
        match result {
            Ok(()) => *passed += 1,
            Err(error) => {
                *failed += 1;
                self.failures.push(format!(
                    "{} ({})\n    {error:#}",
                    case.name(),
                    case.file.display()
                ));
            }
        }
    }

    /// Prints everything. Whether all is well.
    pub(crate) fn print(self, out: &mut dyn Write) -> Result<bool> {
        for failure in &self.failures {
            writeln!(out, "FAILED {failure}")?;
        }
        for problem in &self.problems {
            writeln!(out, "FAILED {problem}")?;
        }
        for (suite, passed, failed) in &self.suites {
            writeln!(out, "suite {suite}: {passed} passed, {failed} failed")?;
        }
        let passed: usize = self.suites.iter().map(|(_, passed, _)| passed).sum();
        let failed = self.failures.len() + self.problems.len();
        writeln!(out, "{passed} passed, {failed} failed")?;
        Ok(failed == 0)
    }

    /// Prints the names of cases instead. Whether the files are well.
    pub(crate) fn list<'a>(
        self,
        cases: impl Iterator<Item = &'a Case>,
        terse: bool,
        out: &mut dyn Write,
    ) -> Result<bool> {
        let mut count = 0;
        for case in cases {
            writeln!(out, "{}: test", case.name())?;
            count += 1;
        }
        if !terse {
            writeln!(out, "\n{count} tests, 0 benchmarks")?;
        }
        for problem in &self.problems {
            eprintln!("FAILED {problem}");
        }
        Ok(self.problems.is_empty())
    }
}
