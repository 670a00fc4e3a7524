//! Paths.

use std::path::{Component, Path, PathBuf};

use super::{Kind, Refusal, text};
use crate::config::value::{Node, quote};

/// An absolute path without `..`.
pub(in crate::config) struct AbsolutePath;

impl Kind for AbsolutePath {
    type Target = PathBuf;

    fn expected(&self) -> String {
        "an absolute path".to_owned()
    }

    fn read(&self, given: &Node) -> Result<PathBuf, Vec<Refusal>> {
        absolute(text(given)?)
    }

    fn render(&self, value: &PathBuf) -> Option<String> {
        Some(quote(&value.to_string_lossy()))
    }
}

/// A shared library: an absolute path, or a file name that the dynamic loader looks up.
pub(in crate::config) struct LibraryPath;

impl Kind for LibraryPath {
    type Target = PathBuf;

    fn expected(&self) -> String {
        "an absolute path or a library's file name".to_owned()
    }

    fn read(&self, given: &Node) -> Result<PathBuf, Vec<Refusal>> {
        let text = text(given)?;
        if !text.is_empty() && !text.contains('/') && !text.contains('\0') {
            return Ok(PathBuf::from(text));
        }
        absolute(text)
    }

    fn render(&self, value: &PathBuf) -> Option<String> {
        AbsolutePath.render(value)
    }
}

fn absolute(text: &str) -> Result<PathBuf, Vec<Refusal>> {
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(Refusal::whole("begin it with `/`"));
    }
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(Refusal::whole("write it without `..`"));
    }
    if text.contains('\0') {
        return Err(Refusal::whole("write it without NUL characters"));
    }
    Ok(path.to_owned())
}
