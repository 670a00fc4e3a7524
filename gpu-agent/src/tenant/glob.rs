//! Glob patterns over cgroup paths and unit names.

use std::fmt;

/// A pattern: `?` is one character and `*` any number of characters inside one path segment, `**` is any
/// number of whole segments. Everything else stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pattern: String,
}

impl Glob {
    /// Longest pattern that is accepted, in bytes; paths come from tenants, so the cost of a match is bounded.
    pub const MAX_BYTES: usize = 1024;

    /// Takes a pattern.
    ///
    /// # Errors
    ///
    /// What to write instead, as one clause.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("write at least one character".to_owned());
        }
        if pattern.len() > Self::MAX_BYTES {
            return Err(format!("use at most {} bytes", Self::MAX_BYTES));
        }
        if pattern.split('/').any(|segment| segment.contains("**") && segment != "**") {
            return Err("let `**` stand alone between slashes, or use `*`".to_owned());
        }
        Ok(Self { pattern: pattern.to_owned() })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        let pattern: Vec<&str> = self.pattern.split('/').collect();
        let text: Vec<&str> = text.split('/').collect();
        matches_sequence(
            &pattern,
            &text,
            |part| *part == "**",
            |part, segment| matches_segment(part, segment),
        )
    }

    /// Whether the path, or a cgroup above it, matches.
    pub fn matches_path_or_ancestor(&self, path: &str) -> bool {
        self.matches(path)
            || path.match_indices('/').filter(|(end, _)| *end > 0).any(|(end, _)| self.matches(&path[..end]))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.pattern)
    }
}

fn matches_segment(pattern: &str, segment: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let segment: Vec<char> = segment.chars().collect();
    matches_sequence(&pattern, &segment, |part| *part == '*', |part, letter| *part == '?' || part == letter)
}

/// Matches with wildcards that take any number of items, going back only to the last wildcard: at most
/// `pattern × items` steps, whatever a tenant calls its cgroups.
fn matches_sequence<P, T>(
    pattern: &[P],
    items: &[T],
    is_wildcard: impl Fn(&P) -> bool,
    matches_one: impl Fn(&P, &T) -> bool,
) -> bool {
    let mut at_pattern = 0;
    let mut at_item = 0;
    let mut retry: Option<(usize, usize)> = None;
    while let Some(item) = items.get(at_item) {
        match pattern.get(at_pattern) {
            Some(part) if is_wildcard(part) => {
                retry = Some((at_pattern + 1, at_item));
                at_pattern += 1;
            }
            Some(part) if matches_one(part, item) => {
                at_pattern += 1;
                at_item += 1;
            }
            _ => {
                let Some((after_wildcard, taken)) = retry else { return false };
                retry = Some((after_wildcard, taken + 1));
                at_pattern = after_wildcard;
                at_item = taken + 1;
            }
        }
    }
    pattern.iter().skip(at_pattern).all(is_wildcard)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    fn glob(pattern: &str) -> Glob {
        Glob::new(pattern).expect("pattern is well-formed")
    }

    #[test]
    fn wildcards_stay_inside_a_segment_unless_doubled() {
        let cases = [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", true),
            ("/**/train-*", "/x/y/train-1", true),
            ("/**/train-*", "/train-1", true),
            ("/**/train-*", "/x/train", false),
            ("job-?.service", "job-1.service", true),
            ("job-?.service", "job-.service", false),
            ("job-?.service", "job-ü.service", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*", "", true),
            ("a", "A", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(glob(pattern).matches(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_pattern_also_covers_the_cgroups_below() {
        assert!(glob("/teams/a").matches_path_or_ancestor("/teams/a/job/worker"));
        assert!(!glob("/teams/a").matches_path_or_ancestor("/teams/ab"));
        assert!(!glob("/teams/a/b").matches_path_or_ancestor("/teams/a"));
    }

    #[test]
    fn the_root_matches_no_pattern_that_names_a_cgroup() {
        assert!(!glob("/?*").matches_path_or_ancestor("/"));
        assert!(!glob("/teams/**").matches_path_or_ancestor("/"));
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["", "/a**", "/**b/c"] {
            assert!(Glob::new(pattern).is_err(), "{pattern}");
        }
        assert!(Glob::new(&"a".repeat(Glob::MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn many_wildcards_cost_a_product_not_a_power() {
        let hostile = "a".repeat(4000);
        assert!(!glob(&"*a".repeat(200)).matches(&format!("{hostile}b")));
    }

    proptest! {
        #[test]
        fn text_without_wildcards_matches_itself_only(text in "[a-z/]{1,30}", other in "[a-z/]{1,30}") {
            let pattern = glob(&text);
            assert!(pattern.matches(&text));
            assert_eq!(pattern.matches(&other), text == other);
        }
    }
}
