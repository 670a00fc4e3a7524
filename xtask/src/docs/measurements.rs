//! The rule of `docs/measurements.md`: no figure without the command that gives it.

/// Rows of the page's tables without a command, as `line: text`.
pub(crate) fn without_command(text: &str) -> impl Iterator<Item = String> {
    let mut findings = Vec::new();
    let mut column = None;
    let mut in_table = false;
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = cells(line) else {
            in_table = false;
            continue;
        };
        let found = |text: &str| format!("{}: {text}", index + 1);
        if !in_table {
            in_table = true;
            column = cells.iter().position(|cell| *cell == "command");
            if column.is_none() {
                findings.push(found("the table has no column `command`"));
            }
        } else if let Some(column) = column
            && !is_rule(&cells)
            && !cells.get(column).is_some_and(|cell| is_command(cell))
        {
            findings.push(found("the row names no command"));
        }
    }
    findings.into_iter()
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// Whether a row is the line below a table's header.
fn is_rule(cells: &[&str]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|char| char == '-' || char == ':'))
}

fn is_command(cell: &str) -> bool {
    cell.strip_prefix('`')
        .and_then(|rest| rest.split_once('`'))
        .is_some_and(|(command, _)| !command.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        without_command(text).collect()
    }

    #[test]
    fn a_row_with_a_command_is_fine() {
        let text = "# Figures\n\n| figure | value | command |\n| --- | ---: | :-- |\n| a_ns | 7 | `cargo xtask bench a` |\n";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn rows_and_tables_without_a_command_are_found() {
        let text = "| figure | command |\n| --- | --- |\n| a | by hand |\n| b | `` |\n| c |\n\n| figure | value |\n| --- | --- |\n";
        assert_eq!(
            findings(text),
            [
                "3: the row names no command",
                "4: the row names no command",
                "5: the row names no command",
                "7: the table has no column `command`",
            ]
        );
    }
}
