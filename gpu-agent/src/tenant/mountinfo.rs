//! Finds the cgroup v2 mount in `/proc/self/mountinfo`, and undoes the escapes of any `mountinfo`.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// The mount point of the whole cgroup v2 hierarchy, the shortest where there are several. A bind mount of a
/// part of the hierarchy is used only when there is no whole one: paths below it then lack their beginning.
///
/// On unified hosts it is `/sys/fs/cgroup`, on hybrid ones `/sys/fs/cgroup/unified`.
pub fn cgroup2_mount(mountinfo: &[u8]) -> Option<PathBuf> {
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(cgroup2_line)
        .min_by_key(|(root, mount)| (root != Path::new("/"), mount.as_os_str().len()))
        .map(|(_, mount)| mount)
}

/// Root within the file system and mount point of a cgroup2 line. The fields are those of proc_pid_mountinfo(5):
/// id, parent, device, root, mount point, options, any number of optional fields, `-`, type, source, options.
fn cgroup2_line(line: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let mount = fields.next()?;
    let mut after = fields.skip_while(|field| *field != b"-");
    (after.nth(1)? == b"cgroup2").then(|| (path(root), path(mount)))
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Undoes the kernel's `\ooo` escapes of space, tab, newline and backslash.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        if let (b'\\', Some(escaped)) = (byte, octal(tail)) {
            bytes.push(escaped);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(text: &str) -> Option<PathBuf> {
        cgroup2_mount(text.as_bytes())
    }

    #[test]
    fn the_mount_is_found_among_optional_fields() {
        let hybrid = "25 1 0:22 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
                      26 25 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:10 master:2 - cgroup2 cgroup2 rw\n\
                      27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(mount(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount("25 1 0:22 / /cg rw cgroup2 none rw"), None);
        assert_eq!(mount("25 1 0:22 / /cg rw - cgroup2 none rw"), Some(PathBuf::from("/cg")));
    }

    #[test]
    fn a_whole_hierarchy_goes_before_a_part_of_one() {
        let text = "26 25 0:23 /docker/a /c rw - cgroup2 cgroup2 rw\n\
                    27 25 0:23 / /host/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                    28 25 0:23 / /very/long/host/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mount(text), Some(PathBuf::from("/host/sys/fs/cgroup")));
        assert_eq!(mount(&text[..48]), Some(PathBuf::from("/c")));
    }

    #[test]
    fn escaped_characters_are_restored() {
        assert_eq!(mount("26 25 0:23 / /a\\040b\\134c rw - cgroup2 x rw"), Some(PathBuf::from("/a b\\c")));
        assert_eq!(mount("26 25 0:23 / /a\\04 rw - cgroup2 x rw"), Some(PathBuf::from("/a\\04")));
    }

    #[test]
    fn a_mount_called_like_the_type_is_no_cgroup2() {
        assert_eq!(mount("26 25 0:23 / /cgroup2 rw - tmpfs cgroup2 rw\n"), None);
        assert_eq!(mount(""), None);
    }
}
