//! Programs from Debian's development suite, unpacked into the cache folder.
//!
//! The system's own package sources stay as they are: apt is given a source list and folders of its own, with the
//! address of the mirror that the system already uses. That also works without root.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Machine;
use super::step::Step;

/// Where a package's program is unpacked.
pub(crate) fn unpacked(cache: &Path, package: &str, program: &str) -> PathBuf {
    cache.join("debian-sid").join(package).join("usr/bin").join(program)
}

/// The commands that fetch a package and unpack one of its programs, or why this machine cannot.
pub(crate) fn unpack_steps(machine: &Machine, package: &str, program: &str) -> Result<Vec<Step>, String> {
    if !machine.apt {
        return Err("there is no apt-get here".to_owned());
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let suite = codename(&release).ok_or("/etc/os-release names no Debian release")?;
    let mirror = system_sources()
        .iter()
        .find_map(|text| mirror(text, suite))
        .ok_or_else(|| format!("found no package source for `{suite}` in /etc/apt"))?;
    Ok(steps(&machine.cache, &mirror, package, program))
}

fn steps(cache: &Path, mirror: &str, package: &str, program: &str) -> Vec<Step> {
    let folder = cache.join("debian-sid/apt");
    let within = |path: &str| folder.join(path).to_string_lossy().into_owned();
    let write = |file: &str, lines: &[String]| {
        Step::new("sh", ["-c", "printf '%s\\n' \"$@\" > \"$0\"", file]).and(lines).within(&folder)
    };
    let (list, settings) = (within("sources.list"), within("apt.conf"));
    let apt = |arguments: &[&str]| {
        Step::new("apt-get", arguments.iter().copied()).with("APT_CONFIG", settings.as_str())
    };
    let debs = folder.join("debs");
    // Only the program: the rest is for running it as a service, and some packages carry many programs.
    let unpack = format!(
        "dpkg-deb --fsys-tarfile {package}_*.deb | tar --extract --directory \"$0\" ./usr/bin/{program} && \
         rm {package}_*.deb"
    );
    let target = cache.join("debian-sid").join(package);
    let target = target.to_string_lossy();
    vec![
        Step::new("mkdir", ["-p", "lists/partial", "cache/archives/partial"]).within(&folder),
        write(
            "sources.list",
            &[format!("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} sid main")],
        ),
        write(
            "apt.conf",
            &[
                format!("Dir::Etc::SourceList \"{list}\";"),
                "Dir::Etc::SourceParts \"/dev/null\";".to_owned(),
                format!("Dir::State::Lists \"{}\";", within("lists")),
                format!("Dir::Cache \"{}\";", within("cache")),
                // The unprivileged user that apt fetches as cannot see into a home folder.
                "APT::Sandbox::User \"\";".to_owned(),
                "Acquire::Languages \"none\";".to_owned(),
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";".to_owned(),
            ],
        ),
        apt(&["update", "--quiet"]),
        apt(&["download", "--quiet", package]).within(&debs),
        Step::new("mkdir", ["-p", &target]),
        Step::new("sh", ["-c", &unpack, &target]).within(&debs),
    ]
}

/// The texts of the system's package source files.
fn system_sources() -> Vec<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        let mut parts: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        parts.sort();
        files.extend(parts.into_iter().filter(|path| {
            path.extension().is_some_and(|extension| extension == "list" || extension == "sources")
        }));
    }
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

fn codename(os_release: &str) -> Option<&str> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim().trim_matches('"'))
}

/// The mirror that one source file names for a suite, in either of apt's two formats.
fn mirror(text: &str, suite: &str) -> Option<String> {
    let of_stanza = |stanza: &str| {
        let field = |name: &str| {
            stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let (types, uris, suites) = (field("Types")?, field("URIs")?, field("Suites")?);
        let fits = types.split_whitespace().any(|kind| kind == "deb")
            && suites.split_whitespace().any(|named| named == suite);
        fits.then(|| uris.split_whitespace().next().map(str::to_owned)).flatten()
    };
    let of_line = |line: &str| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
        let mut words = rest.split_whitespace();
        let uri = words.next()?;
        (words.next()? == suite).then(|| uri.to_owned())
    };
    text.split("\n\n").find_map(of_stanza).or_else(|| text.lines().find_map(of_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_that_the_systems_own_suite_comes_from() {
        let stanzas = "Types: deb\nURIs: http://updates.invalid/debian\nSuites: bookworm-security\n\n\
            Types: deb deb-src\nURIs: http://mirror.invalid/debian\nSuites: bookworm bookworm-updates\n";
        assert_eq!(mirror(stanzas, "bookworm").as_deref(), Some("http://mirror.invalid/debian"));
        assert_eq!(mirror(stanzas, "trixie"), None);

        let lines = "# deb http://old.invalid bookworm main\n\
            deb http://updates.invalid bookworm-security main\n\
            deb [arch=amd64 signed-by=/k] http://mirror.invalid bookworm main\n";
        assert_eq!(mirror(lines, "bookworm").as_deref(), Some("http://mirror.invalid"));
        assert_eq!(mirror(lines, "sid"), None);
    }

    #[test]
    fn the_release_is_read_with_and_without_quotes() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n"), Some("bookworm"));
        assert_eq!(codename("VERSION_CODENAME=\"trixie\"\n"), Some("trixie"));
        assert_eq!(codename("ID=arch\n"), None);
    }

    #[test]
    fn no_step_touches_the_systems_package_state() {
        let steps = steps(Path::new("/cache"), "http://mirror.invalid/debian", "promtool", "promtool");
        assert!(steps.iter().all(|step| !step.needs_root()));
        let text: Vec<_> = steps.iter().map(ToString::to_string).collect();
        let apt: Vec<_> = text.iter().filter(|line| line.contains("apt-get")).collect();
        assert_eq!(apt.len(), 2);
        assert!(apt.iter().all(|line| line.contains("APT_CONFIG=/cache/debian-sid/apt/apt.conf apt-get")));
        let settings = text.iter().find(|line| line.contains("> \"$0\"' apt.conf")).unwrap();
        for setting in
            ["Dir::Etc::SourceParts \"/dev/null\"", "Dir::State::Lists \"/cache/debian-sid/apt/lists\""]
        {
            assert!(settings.contains(setting), "{settings}");
        }
        assert!(text.last().unwrap().ends_with("/cache/debian-sid/promtool"), "{text:?}");
    }
}
