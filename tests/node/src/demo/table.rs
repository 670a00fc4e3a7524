//! Aligned text tables.

use super::paint::{Paint, Tone};

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// One field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// A table with a line of titles.
#[derive(Debug)]
pub(super) struct Table<'a> {
    columns: &'a [(&'a str, Align)],
    rows: Vec<Vec<Cell>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(columns: &'a [(&'a str, Align)]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row, a cell for each column.
    pub(super) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The lines of the table, titles first.
    pub(super) fn lines(&self, paint: Paint) -> Vec<String> {
        let titles: Vec<Cell> =
            self.columns.iter().map(|(title, _)| Cell::toned(*title, Tone::Heading)).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = std::iter::once(&titles).chain(&self.rows).filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.chars().count()).max().unwrap_or_default()
            })
            .collect();
        std::iter::once(&titles).chain(&self.rows).map(|row| self.line(row, &widths, paint)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], paint: Paint) -> String {
        let last = row.len().saturating_sub(1);
        let fields = row.iter().zip(self.columns).zip(widths).enumerate().map(
            |(index, ((cell, (_, align)), &width))| {
                let text = &cell.text;
                // Colours come after the padding, which would count their characters.
                let padded = match align {
                    Align::Right => format!("{text:>width$}"),
                    Align::Left if index == last => text.clone(),
                    Align::Left => format!("{text:width$}"),
                };
                paint.apply(cell.tone, &padded)
            },
        );
        format!("  {}", fields.collect::<Vec<_>>().join("  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_field() {
        let mut table = Table::new(&[("tenant", Align::Left), ("launches", Align::Right), ("", Align::Left)]);
        table.push(vec![Cell::new("a"), Cell::new("5"), Cell::new("\u{2713}")]);
        table.push(vec![Cell::new("inference"), Cell::new("1234567890"), Cell::new("no")]);
        assert_eq!(
            table.lines(Paint::new(false)),
            ["  tenant       launches  ", "  a                   5  \u{2713}", "  inference  1234567890  no",]
        );
    }
}
