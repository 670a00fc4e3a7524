//! An error with its causes in one line. Errors of this crate do not repeat their cause in their own text.

use std::{error::Error, fmt};

/// Displays an error and, after colons, what caused it.
#[derive(Clone, Copy)]
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(formatter, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read `x`")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_in_order() {
        let error = Outer(std::io::Error::other("no disk"));
        assert_eq!(Chain(&error).to_string(), "cannot read `x`: no disk");
    }
}
