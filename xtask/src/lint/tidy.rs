//! The repository's own rules, which no other tool checks.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use xshell::cmd;

use crate::workspace::Workspace;

/// The longest source file that still holds one concept.
const MOST_LINES: usize = 600;
/// The largest file that belongs into a repository.
const MOST_BYTES: usize = 1024 * 1024;

/// A rule broken at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; `None` where the whole file is meant.
    line: Option<usize>,
    rule: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule } = self;
        match line {
            Some(line) => write!(formatter, "{path}:{line}: {rule}"),
            None => write!(formatter, "{path}: {rule}"),
        }
    }
}

/// Checks every file that git knows or would take.
pub(crate) fn check_repository(workspace: &Workspace) -> Result<Vec<Finding>> {
    let listed = cmd!(workspace.shell, "git ls-files -z --cached --others --exclude-standard")
        .quiet()
        .read()
        .context("failed to list the repository's files")?;
    let mut findings = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let file = workspace.root.join(path);
        // A deleted file stays listed until its deletion is committed.
        if !file.is_file() {
            continue;
        }
        let bytes = fs::read(&file).with_context(|| format!("failed to read `{path}`"))?;
        findings.extend(check_file(path, &bytes));
    }
    Ok(findings)
}

/// Checks one file by its path in the repository and its content.
fn check_file(path: &str, bytes: &[u8]) -> Vec<Finding> {
    let whole = |rule| Finding { path: path.to_owned(), line: None, rule };
    let mut findings = Vec::new();
    if bytes.len() > MOST_BYTES {
        findings.push(whole("is larger than 1 MiB"));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return findings };

    if is_source(path) && text.lines().count() > MOST_LINES {
        findings.push(whole("has more than 600 lines: split it by concept"));
    }
    if extension(path) == "rs" {
        if !text.starts_with("//!") && !path.ends_with("/tests.rs") {
            findings.push(whole("does not begin with a `//!` line that says what it is for"));
        }
        if path.ends_with("/mod.rs") {
            findings.push(whole("belongs beside its folder, as `name.rs`"));
        }
        if is_product_code(path) {
            let lines = panicking_lines(text).into_iter();
            findings.extend(
                lines.map(|line| at(path, line, "may panic: return an error, or move it into a test")),
            );
        }
    }
    if !is_generated(path) {
        for (index, line) in text.lines().enumerate() {
            let rules = FORBIDDEN.iter().filter(|(_, found)| found(line));
            findings.extend(rules.map(|(rule, _)| at(path, index + 1, rule)));
        }
    }
    findings
}

fn at(path: &str, line: usize, rule: &'static str) -> Finding {
    Finding { path: path.to_owned(), line: Some(line), rule }
}

fn is_source(path: &str) -> bool {
    ["rs", "ts", "js", "c", "h", "py"].contains(&extension(path))
}

/// Whether a file comes from a tool that may write what people may not.
fn is_generated(path: &str) -> bool {
    path.ends_with("Cargo.lock") || path.ends_with("package-lock.json") || extension(path) == "svg"
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(OsStr::to_str).unwrap_or_default()
}

/// Whether a panic in this file would be one of the product's.
fn is_product_code(path: &str) -> bool {
    path.starts_with("gpu-")
        && path.contains("/src/")
        && !path.ends_with("/tests.rs")
        && !path.contains("/tests/")
}

/// Lines, counted from 1, that unwrap: outside constants, which are computed by the compiler, and before the first
/// test module. A file for tests only says so with `#![cfg(test)]`.
fn panicking_lines(text: &str) -> Vec<usize> {
    let for_tests = |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#![cfg(test)]");
    text.lines()
        .map(str::trim)
        .enumerate()
        .take_while(|(_, line)| !for_tests(line))
        .filter(|(_, line)| !line.starts_with("//") && !is_constant(line))
        .filter(|(_, line)| line.contains(".unwrap()") || line.contains(".expect("))
        .map(|(index, _)| index + 1)
        .collect()
}

/// Whether the line is a whole constant.
fn is_constant(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    words.next() == Some("const") && line.contains('=') && line.ends_with(';')
}

/// A rule's text, and whether a line breaks it. The marks are put together here so that this file keeps its rules.
type LineRule = (&'static str, fn(&str) -> bool);

const FORBIDDEN: [LineRule; 4] = [
    ("marks unfinished work", |line| {
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")]
            .iter()
            .any(|mark| has_word(line, mark))
            || [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!(")]
                .iter()
                .any(|mark| line.contains(mark))
    }),
    ("names a path of one machine", |line| {
        [concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/tmp/bash", "_jobs"), concat!("/ro", "ot/")]
            .iter()
            .any(|path| has_path(line, path))
    }),
    ("names a package registry's host", |line| {
        ["deb", "static", "index", "files", "registry", "security"].iter().any(|label| {
            ["http", "https"].iter().any(|scheme| line.contains(&format!("{scheme}://{label}.")))
        })
    }),
    ("names an issue: say what it is about", |line| {
        line.to_lowercase().match_indices("issue ").any(|(at, found)| {
            let rest = line.get(at + found.len()..).unwrap_or_default().trim_start_matches('#');
            rest.starts_with(|first: char| first.is_ascii_digit())
        })
    }),
];

/// Whether the text holds the word, with no letter, digit or `_` beside it.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |neighbour: Option<char>| neighbour.is_some_and(|next| next.is_alphanumeric() || next == '_');
    text.match_indices(word).any(|(at, found)| {
        !joins(text[..at].chars().next_back()) && !joins(text[at + found.len()..].chars().next())
    })
}

/// Whether the text holds the path from the root of the file system on, not as the end of a longer one.
fn has_path(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|last| last.is_alphanumeric() || "._-/*}>~".contains(last))
    })
}

#[cfg(test)]
mod tests;
