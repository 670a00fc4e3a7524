//! Links of a Markdown page that lead nowhere in the repository.

/// The broken relative links of a page, as `path:line: text`; `exists` says whether the repository holds a path.
pub(crate) fn broken(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        for target in targets(&without_code(line)) {
            let file = target.split_once('#').map_or(target.as_str(), |(file, _)| file);
            let resolved = if file.is_empty() || has_scheme(file) { continue } else { resolve(folder, file) };
            if !resolved.as_deref().is_some_and(&exists) {
                findings.push(format!("{path}:{}: the link to `{target}` leads nowhere", index + 1));
            }
        }
    }
    findings
}

/// The link targets in a line: `[text](target)`, `[text](target "title")` and `[label]: target`.
fn targets(line: &str) -> Vec<String> {
    let word =
        |text: &str| text.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']).to_owned();
    let inline = line.match_indices("](").filter_map(|(at, mark)| {
        let (target, _) = line.get(at + mark.len()..)?.split_once(')')?;
        Some(word(target))
    });
    let mut found: Vec<_> = inline.collect();
    if let Some((label, target)) = line.split_once("]: ")
        && label.starts_with('[')
        && !label.contains(']')
    {
        found.push(word(target));
    }
    found
}

/// The line with its code spans taken out, where brackets and parentheses mean something else.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

fn has_scheme(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.chars().all(|char| char.is_ascii_alphanumeric()))
}

/// The path in the repository that a relative target means; `None` where it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in target.split('/') {
        match part {
            ".." => {
                parts.retain(|part| !part.is_empty());
                parts.pop()?;
            }
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The broken links of a page in `docs/`, in a repository with two other files.
    fn broken_in(text: &str) -> Vec<String> {
        broken("docs/page.md", text, |path| ["README.md", "docs/metrics.md"].contains(&path))
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "See [metrics](metrics.md), [here](#part), [there](./metrics.md#devices \"title\"),\n\
            [readme](../README.md) or [elsewhere](https://example.invalid/a).\n[label]: /README.md\n";
        assert_eq!(broken_in(text), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "[a](nothing.md) and [b](../docs/none.md#x)\n[c]: gone.md\n[out](../../README.md)\n";
        assert_eq!(
            broken_in(text),
            [
                "docs/page.md:1: the link to `nothing.md` leads nowhere",
                "docs/page.md:1: the link to `../docs/none.md#x` leads nowhere",
                "docs/page.md:2: the link to `gone.md` leads nowhere",
                "docs/page.md:3: the link to `../../README.md` leads nowhere",
            ]
        );
    }

    #[test]
    fn code_is_no_link() {
        assert_eq!(broken_in("`[a](nothing.md)`\n```\n[b](nothing.md)\n```\n"), [""; 0]);
    }
}
