//! systemd units in a cgroup path.
//!
//! systemd places slices in slices and units in slices; below a unit's cgroup the unit itself decides. A user
//! manager (`user@1000.service`) places units of its user there, whose names that user chooses, so they are
//! named together with the manager.

/// Suffixes of units that have a cgroup, apart from slices.
const UNIT_SUFFIXES: [&str; 5] = [".service", ".scope", ".mount", ".socket", ".swap"];

/// A systemd unit and where its part of the path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// `train.service`, `session-1.scope`, `machine.slice`, or `user@1000.service/train.service` for a unit of
    /// a user manager. Escapes are decoded.
    pub name: String,
    /// Slice that the system's unit is in; `None` for one directly below the root, and for slices.
    pub slice: Option<String>,
    /// Whether it is a user manager or was placed by one, so that what is below is the user's choice.
    pub of_user: bool,
    /// Bytes of the path up to the end of the unit's segment.
    pub path_len: usize,
}

/// Reads the system's unit, or the unit of a user manager; a path of slices alone gives the innermost slice.
pub fn unit(path: &str) -> Option<Unit> {
    let system = first_unit(path, 0)?;
    if !is_user_manager(&system.name) {
        return Some(system);
    }
    let manager = system.name.clone();
    match first_unit(path, system.path_len) {
        // The manager's own processes live in a cgroup called `init.scope` below its own.
        Some(inner) if inner.name != "init.scope" && !is_slice(&inner.name) => Some(Unit {
            name: format!("{manager}/{}", inner.name),
            slice: system.slice,
            of_user: true,
            path_len: inner.path_len,
        }),
        _ => Some(Unit { of_user: true, ..system }),
    }
}

/// The first unit after `start`, with nothing but slices before it, or the last of these slices.
fn first_unit(path: &str, start: usize) -> Option<Unit> {
    let mut end = start;
    let mut slice: Option<(String, usize)> = None;
    for segment in path.get(start..)?.strip_prefix('/')?.split('/') {
        end += 1 + segment.len();
        let name = decode(segment);
        if is_slice(&name) {
            slice = Some((name, end));
        } else if is_unit(&name) {
            let slice = slice.map(|(name, _)| name);
            return Some(Unit { name, slice, of_user: false, path_len: end });
        } else {
            return None;
        }
    }
    slice.map(|(name, path_len)| Unit { name, slice: None, of_user: false, path_len })
}

fn is_unit(name: &str) -> bool {
    UNIT_SUFFIXES.iter().any(|suffix| name.strip_suffix(suffix).is_some_and(|stem| !stem.is_empty()))
}

fn is_slice(name: &str) -> bool {
    name.strip_suffix(".slice").is_some_and(|stem| !stem.is_empty())
}

fn is_user_manager(name: &str) -> bool {
    name.strip_prefix("user@")
        .and_then(|rest| rest.strip_suffix(".service"))
        .is_some_and(|uid| !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Undoes systemd's escapes: `\xHH` in unit names, and the `_` that is put before a name which would clash with
/// a file of the cgroup file system. What would decode to a slash, a control character or no UTF-8 stays.
fn decode(segment: &str) -> String {
    let segment = segment.strip_prefix('_').unwrap_or(segment);
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find("\\x") {
        let (before, escape) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        let digits = escape.get(2..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte != b'/' && !byte.is_ascii_control() => {
                bytes.push(byte);
                rest = escape.get(4..).unwrap_or_default();
            }
            _ => {
                bytes.extend_from_slice(b"\\x");
                rest = escape.get(2..).unwrap_or_default();
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_not_utf8| segment.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    fn name(path: &str) -> Option<String> {
        unit(path).map(|unit| unit.name)
    }

    #[test]
    fn units_and_slices_are_named() {
        let cases = [
            ("/system.slice/train.service", Some("train.service")),
            ("/system.slice/train.service/worker/3", Some("train.service")),
            ("/user.slice/user-1000.slice/session-1.scope", Some("session-1.scope")),
            ("/init.scope", Some("init.scope")),
            ("/system.slice/system-getty.slice/getty@tty1.service", Some("getty@tty1.service")),
            ("/machine.slice", Some("machine.slice")),
            ("/a.slice/a-b.slice", Some("a-b.slice")),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
                Some("user@1000.service/jupyter.service"),
            ),
            ("/user.slice/user-1000.slice/user@1000.service/init.scope", Some("user@1000.service")),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice", Some("user@1000.service")),
            ("/user.slice/user-1000.slice/user@1000.service", Some("user@1000.service")),
            ("/", None),
            ("", None),
            ("/jobs/a", None),
            ("/jobs/train.service", None),
            ("/a.slice/jobs", None),
            ("/.service", None),
            ("/.slice", None),
        ];
        for (path, expected) in cases {
            assert_eq!(name(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_user_cannot_take_the_name_of_a_system_unit() {
        let forged = "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service";
        let read = unit(forged).expect("path has a unit");
        assert!(read.of_user);
        assert_eq!(read.name, "user@1000.service/train.service");
    }

    #[test]
    fn escapes_are_decoded_unless_they_hide_something() {
        let cases = [
            ("/system.slice/dev\\x2ddisk.mount", "dev-disk.mount"),
            ("/system.slice/a\\xc3\\xbc.service", "aü.service"),
            ("/system.slice/a\\xff.service", "a\\xff.service"),
            ("/system.slice/a\\x2fb.service", "a\\x2fb.service"),
            ("/system.slice/a\\x0ab.service", "a\\x0ab.service"),
            ("/system.slice/a\\x2.service", "a\\x2.service"),
            ("/system.slice/_cgroup.service", "cgroup.service"),
        ];
        for (path, expected) in cases {
            assert_eq!(name(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn the_slice_and_the_units_own_path_are_known() {
        let path = "/system.slice/train.service/worker";
        let read = unit(path).expect("path has a unit");
        assert_eq!(read.slice.as_deref(), Some("system.slice"));
        assert_eq!(&path[..read.path_len], "/system.slice/train.service");
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_its_bounds(
            path in "(/|user@1\\.service|a\\.slice|b\\.scope|\\\\x|2d|_|é|\\PC){0,30}",
        ) {
            if let Some(read) = unit(&path) {
                assert!(path.is_char_boundary(read.path_len) && read.path_len <= path.len());
            }
        }
    }
}
