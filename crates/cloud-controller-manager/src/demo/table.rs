//! Tables for the text output.

use std::fmt::Write as _;

/// Returns a row of cells.
pub(super) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Aligns the columns: text to the left, numbers to the right.
pub(super) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let is_number = |column: usize| {
        rows.iter()
            .skip(1)
            .all(|row| row[column].parse::<f64>().is_ok())
    };
    let shape: Vec<(usize, bool)> = (0..columns)
        .map(|c| (width(c).unwrap_or(0), is_number(c)))
        .collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (cell, (width, number)) in row.iter().zip(&shape) {
            _ = if *number {
                write!(text, "{cell:>width$}  ")
            } else {
                write!(text, "{cell:<width$}  ")
            };
        }
        text.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_to_the_left_and_numbers_to_the_right() {
        let rows = [
            row(["route", "requests"]),
            row(["GET /a", "7"]),
            row(["GET /long", "12"]),
        ];
        assert_eq!(
            aligned(&rows),
            [
                "route      requests",
                "GET /a            7",
                "GET /long        12"
            ]
        );
    }
}
