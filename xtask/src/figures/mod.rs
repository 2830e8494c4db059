//! Figures of the code: lines and tokens of each crate, and names that have no noun.
//!
//! A token is what the lexer of the language returns, without comments, commas and semicolons, so that layout does not
//! change the count. A line of code is a line on which a token begins.

mod crates;
mod go;
#[cfg(test)]
mod limits;
mod patterns;
mod source;
mod table;

use std::collections::BTreeMap;

use anyhow::Result;

use crate::project::Project;

/// Counts of some code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Lines of code: those on which a token begins.
    lines: usize,
    /// Tokens of the language, without comments and separators.
    tokens: usize,
    /// Closures with a parameter named `it`, which says nothing about the value.
    unnamed_parameters: usize,
    /// Statements that bind several names to a tuple written in the same statement.
    tuple_lets: usize,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.tokens += other.tokens;
        self.unnamed_parameters += other.unnamed_parameters;
        self.tuple_lets += other.tuple_lets;
    }
}

/// Kind of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Code of a program or a library.
    Code,
    /// Unit tests, integration tests, benches and examples.
    Test,
    /// The simulation of a cloud, for tests.
    Fake,
}

/// Counts of a crate, by kind.
pub(crate) type Figures = BTreeMap<Kind, Count>;

/// Prints the figures of each crate, and the sizes of the clouds against their Go programs.
pub(crate) fn print(project: &Project) -> Result<()> {
    let crates = crates::figures(&project.root)?;
    print!(
        "{}\n{}",
        table::of_crates(&crates),
        table::of_clouds(&crates)
    );
    Ok(())
}
