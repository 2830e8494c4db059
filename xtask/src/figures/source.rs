//! The tokens of a source file, each with its line, and whether it is part of the unit tests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use super::patterns::{self, is_mark};
use super::{Count, Figures, Kind};

/// Returns the counts of a file. Modules with `#[cfg(test)]` inside code are tests.
pub(super) fn count(text: &str, kind: Kind) -> Result<Figures> {
    let stream: TokenStream = text
        .parse()
        .map_err(|error| anyhow!("cannot read the tokens: {error}"))?;
    let mut counter = Counter::default();
    counter.read(stream, kind);
    for (kind, lines) in counter.lines {
        counter.figures.entry(kind).or_default().lines += lines.len();
    }
    Ok(counter.figures)
}

#[derive(Default)]
struct Counter {
    figures: Figures,
    /// Lines of code, by kind. A line that has both counts for both.
    lines: BTreeMap<Kind, BTreeSet<usize>>,
}

impl Counter {
    fn read(&mut self, stream: TokenStream, kind: Kind) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let count = self.figures.entry(kind).or_default();
        *count += Count {
            unnamed_parameters: patterns::unnamed_parameters(&trees),
            tuple_lets: patterns::tuple_lets(&trees),
            ..Count::default()
        };
        let mut position = 0;
        while position < trees.len() {
            if let Some(length) = documentation(&trees[position..]) {
                position += length;
                continue;
            }
            let is_test_module = kind == Kind::Code && is_test_module(&trees[..position]);
            let kind = if is_test_module { Kind::Test } else { kind };
            match &trees[position] {
                TokenTree::Group(group) => self.read_group(group, kind),
                tree if is_counted(tree, position.checked_sub(1).map(|before| &trees[before])) => {
                    self.add(tree.span().start().line, kind);
                }
                _ => {}
            }
            position += 1;
        }
    }

    fn read_group(&mut self, group: &Group, kind: Kind) {
        if group.delimiter() != Delimiter::None {
            self.add(group.span_open().start().line, kind);
            self.add(group.span_close().start().line, kind);
        }
        self.read(group.stream(), kind);
    }

    fn add(&mut self, line: usize, kind: Kind) {
        self.figures.entry(kind).or_default().tokens += 1;
        self.lines.entry(kind).or_default().insert(line);
    }
}

/// Returns `true` for a tree that is a token of its own: neither a comma or semicolon, nor the second character of an
/// operator or of a lifetime.
fn is_counted(tree: &TokenTree, before: Option<&TokenTree>) -> bool {
    let separates = is_mark(tree, ',') || is_mark(tree, ';');
    let follows_at_once =
        matches!(before, Some(TokenTree::Punct(first)) if first.spacing() == Spacing::Joint);
    // A lifetime begins a token, also behind `&`.
    let continues = follows_at_once && !is_mark(tree, '\'');
    !separates && !continues
}

/// Returns the number of trees that a doc comment takes: the lexer turns it into an attribute.
fn documentation(trees: &[TokenTree]) -> Option<usize> {
    trees.first().filter(|tree| is_mark(tree, '#'))?;
    let is_inner = trees.get(1).is_some_and(|tree| is_mark(tree, '!'));
    let bracket = if is_inner { 2 } else { 1 };
    let Some(TokenTree::Group(group)) = trees.get(bracket) else {
        return None;
    };
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc").then_some(bracket + 1)
}

/// Returns `true` if the trees end with `#[cfg(test)] mod NAME`, with or without a visibility.
fn is_test_module(before: &[TokenTree]) -> bool {
    let words: Vec<String> = before
        .iter()
        .rev()
        .take(6)
        .map(|tree| tree.to_string().replace(' ', ""))
        .collect();
    let is_module = words.get(1).is_some_and(|word| word == "mod");
    is_module && words.iter().any(|word| word == "[cfg(test)]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> [(usize, usize); 2] {
        let figures = count(text, Kind::Code).unwrap();
        [Kind::Code, Kind::Test].map(|kind| {
            let count = figures.get(&kind).copied().unwrap_or_default();
            (count.lines, count.tokens)
        })
    }

    #[test]
    fn tokens_and_lines_are_counted_without_comments_and_separators() {
        // fn a ( x : & 'a str ) -> u8 { x . len ( ) :: 1 }
        let code = "/// Docs.\nfn a(x: &'a str, ) -> u8 {\n    // why\n    x.len()::1;\n\n}\n";
        assert_eq!(counts(code), [(3, 20), (0, 0)]);
        assert_eq!(counts(&code.replace(", )", ")")), counts(code));
    }

    #[test]
    fn unit_tests_inside_code_are_tests() {
        let [code, test] =
            counts("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        // fn a ( ) { }, # [ cfg ( test ) ] mod tests, fn c ( ) { }
        assert_eq!((code, test), ((4, 21), (3, 8)));
    }
}
