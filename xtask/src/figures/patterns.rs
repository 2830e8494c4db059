//! Patterns in code that readers stumble over.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Names of functions, variables and fields that have no noun.
#[cfg(test)]
const NAMES_WITHOUT_A_NOUN: [&str; 2] = ["is_it", "is_its"];

/// Counts the closures among these trees, not inside their groups, that have a parameter `it`.
pub(super) fn unnamed_parameters(trees: &[TokenTree]) -> usize {
    let mut count = 0;
    let mut position = 0;
    while position < trees.len() {
        let length = if begins_closure(trees, position) {
            parameters(&trees[position + 1..])
        } else {
            None
        };
        let Some(length) = length else {
            position += 1;
            continue;
        };
        count += usize::from(trees[position + 1..][..length].iter().any(names_it));
        position += length + 2;
    }
    count
}

/// Returns `true` if the tree at a position is the `|` before the parameters of a closure. Behind a value it is an
/// operator, and between patterns it separates alternatives.
fn begins_closure(trees: &[TokenTree], position: usize) -> bool {
    if !is_mark(&trees[position], '|') {
        return false;
    }
    match position.checked_sub(1).map(|before| &trees[before]) {
        None => true,
        Some(TokenTree::Ident(word)) => ["move", "return", "else", "async"]
            .iter()
            .any(|keyword| word == keyword),
        Some(TokenTree::Punct(mark)) => {
            [',', '=', '>', ';', '&', ':', '('].contains(&mark.as_char())
        }
        Some(TokenTree::Group(_) | TokenTree::Literal(_)) => false,
    }
}

/// Returns the number of trees up to the `|` that ends the parameters.
fn parameters(trees: &[TokenTree]) -> Option<usize> {
    let end = trees.iter().position(|tree| is_mark(tree, '|'))?;
    // A statement or an arm of a match ends before: these are alternatives of a pattern.
    let is_list = !trees[..end]
        .iter()
        .any(|tree| is_mark(tree, ';') || is_mark(tree, '='));
    is_list.then_some(end)
}

fn names_it(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Ident(name) => name == "it",
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
            group.stream().into_iter().any(|tree| names_it(&tree))
        }
        _ => false,
    }
}

/// Counts the statements `let (a, b) = (x, y);` among these trees, not inside their groups.
pub(super) fn tuple_lets(trees: &[TokenTree]) -> usize {
    let starts = trees
        .iter()
        .enumerate()
        .filter(|(_, tree)| matches!(tree, TokenTree::Ident(word) if word == "let"));
    starts
        .filter(|(position, _)| binds_a_tuple(&trees[position + 1..]))
        .count()
}

/// Returns `true` if the trees begin with `(…) = (…, …);`.
fn binds_a_tuple(trees: &[TokenTree]) -> bool {
    let [
        TokenTree::Group(names),
        equals,
        TokenTree::Group(values),
        end,
        ..,
    ] = trees
    else {
        return false;
    };
    let is_tuple = [names, values]
        .iter()
        .all(|group| group.delimiter() == Delimiter::Parenthesis);
    is_tuple && is_mark(equals, '=') && is_mark(end, ';') && has_comma(values.stream())
}

fn has_comma(stream: TokenStream) -> bool {
    stream.into_iter().any(|tree| is_mark(&tree, ','))
}

/// Returns `true` if the tree is this character of punctuation.
pub(super) fn is_mark(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(mark) if mark.as_char() == wanted)
}

/// Returns the names without a noun that occur in these tokens.
#[cfg(test)]
pub(super) fn names_without_a_noun(stream: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    for tree in stream {
        match tree {
            TokenTree::Ident(name) if NAMES_WITHOUT_A_NOUN.iter().any(|bad| name == bad) => {
                found.push(name.to_string());
            }
            TokenTree::Group(group) => found.extend(names_without_a_noun(group.stream())),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(text: &str) -> Vec<TokenTree> {
        text.parse::<TokenStream>().unwrap().into_iter().collect()
    }

    #[test]
    fn closures_with_the_parameter_it_are_counted_and_patterns_are_not() {
        for (code, count) in [
            ("|it| it.len()", 1),
            ("a, |(name, it)| name", 1),
            ("move |it: &Node| it", 1),
            ("let f = |node| it; let g = |it| 1", 1),
            ("a || it || b", 0),
            ("x | it | y", 0),
            ("Some(A | it | B) => 1, C | it | D => 2", 0),
        ] {
            assert_eq!(unnamed_parameters(&trees(code)), count, "{code}");
        }
    }

    #[test]
    fn tuples_written_in_the_statement_are_counted_and_results_of_functions_are_not() {
        for (code, count) in [
            ("let (a, b) = (x, y);", 1),
            ("let (a, b) = f(x, y); let (c, d) = (x);", 0),
            ("let (a, b) = (x, y) else { return };", 0),
            ("let a = (x, y);", 0),
        ] {
            assert_eq!(tuple_lets(&trees(code)), count, "{code}");
        }
    }

    #[test]
    fn names_without_a_noun_are_found_inside_groups() {
        let code = "let is_it = 1; f(|x| { is_its(x) }); is_item";
        assert_eq!(
            names_without_a_noun(code.parse().unwrap()),
            ["is_it", "is_its"]
        );
    }
}
