//! The real file under an overlay.
//!
//! Containers of one image see one library through many overlay mounts, each with a device number of its
//! own, while uprobes are registered on the one file underneath. The layers of a mount are in its process's
//! `mountinfo`. A tenant can forge that, so a candidate counts only if it looks like the file that was
//! opened; and if the guess is wrong, a library is attached twice, which counts nothing twice. The candidate
//! itself is then read and probed, through the descriptor that it was looked at with.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use super::open::{self, OpenFile};
use crate::tenant::mountinfo::unescape;

/// One overlay mount of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Overlay {
    mount_point: PathBuf,
    /// Upper layer first, then the lower ones from the top.
    layers: Vec<PathBuf>,
}

/// The file under `path` (in the mount namespace described by `mountinfo`) if an overlay covers it; layers are
/// looked up below `host_root`. With it comes its path on the host.
pub fn real_file(
    mountinfo: &[u8],
    path: &Path,
    opened: &fs::Metadata,
    host_root: &Path,
) -> Option<(OpenFile, PathBuf)> {
    let overlay = covering(mountinfo, path)?;
    let relative = path.strip_prefix(&overlay.mount_point).ok()?;
    overlay.layers.iter().filter(|layer| layer.is_absolute()).find_map(|layer| {
        let inside = layer.join(relative);
        let candidate = open::beneath(host_root, &inside).ok()?;
        let metadata = &candidate.metadata;
        let same = metadata.len() == opened.len()
            && (metadata.mtime(), metadata.mtime_nsec()) == (opened.mtime(), opened.mtime_nsec());
        let on_host = host_root.join(inside.strip_prefix("/").ok()?);
        same.then_some((candidate, on_host))
    })
}

/// The overlay whose mount point is the longest prefix of `path`, if no other mount is longer.
fn covering(mountinfo: &[u8], path: &Path) -> Option<Overlay> {
    let mut best: Option<(usize, Option<Overlay>)> = None;
    for line in mountinfo.split(|byte| *byte == b'\n') {
        let Some((mount_point, overlay)) = parse_line(line) else { continue };
        let length = mount_point.as_os_str().len();
        // A later mount at the same point covers an earlier one.
        if path.starts_with(&mount_point) && best.as_ref().is_none_or(|(longest, _)| length >= *longest) {
            best = Some((length, overlay));
        }
    }
    best?.1
}

/// `36 35 98:0 /root /mount/point options - type source super-options`.
fn parse_line(line: &[u8]) -> Option<(PathBuf, Option<Overlay>)> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let mount_point = path_from(&unescape(fields.get(4)?));
    let separator = fields.iter().position(|field| *field == b"-")?;
    if fields.get(separator + 1) != Some(&b"overlay".as_slice()) {
        return Some((mount_point, None));
    }
    let options = unescape(fields.get(separator + 3)?);
    let mut upper = Vec::new();
    let mut lower = Vec::new();
    for option in split_unescaped(&options, b',') {
        if let Some(directory) = option.strip_prefix(b"upperdir=") {
            upper.push(path_from(&without_backslashes(directory)));
        } else if let Some(directories) = option.strip_prefix(b"lowerdir=") {
            lower.extend(
                split_unescaped(directories, b':')
                    .filter(|directory| !directory.is_empty())
                    .map(|directory| path_from(&without_backslashes(directory))),
            );
        } else if let Some(directory) = option.strip_prefix(b"lowerdir+=") {
            lower.push(path_from(&without_backslashes(directory)));
        }
    }
    upper.append(&mut lower);
    Some((mount_point.clone(), Some(Overlay { mount_point, layers: upper })))
}

fn path_from(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Splits at separators that no backslash stands before.
fn split_unescaped(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut escaped = false;
    text.split(move |byte| {
        let splits = *byte == separator && !escaped;
        escaped = *byte == b'\\' && !escaped;
        splits
    })
}

fn without_backslashes(text: &[u8]) -> Vec<u8> {
    let mut escaped = false;
    text.iter()
        .copied()
        .filter(|byte| {
            escaped = *byte == b'\\' && !escaped;
            !escaped
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probe::library::LibraryId;

    const MOUNTINFO: &[u8] = b"\
22 1 254:0 / / rw - ext4 /dev/vda rw\n\
30 22 0:40 / /merged rw - overlay overlay rw,lowerdir=/layers/b:/layers/a\\134:c,upperdir=/up\\040per,workdir=/work\n\
31 30 0:41 / /merged/data rw - tmpfs tmpfs rw\n";

    #[test]
    fn layers_are_read_from_the_top() {
        let overlay = covering(MOUNTINFO, Path::new("/merged/lib/libcuda.so.1")).unwrap();
        assert_eq!(overlay.mount_point, Path::new("/merged"));
        assert_eq!(overlay.layers, [Path::new("/up per"), Path::new("/layers/b"), Path::new("/layers/a:c")]);
    }

    #[test]
    fn other_file_systems_are_not_overlays() {
        assert_eq!(covering(MOUNTINFO, Path::new("/usr/lib/libcuda.so.1")), None);
        assert_eq!(covering(MOUNTINFO, Path::new("/merged/data/libcuda.so.1")), None, "a mount inside");
    }

    #[test]
    fn two_overlays_over_one_lower_layer_are_one_file() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("lower/lib")).unwrap();
        let library = host.path().join("lower/lib/libcuda.so.1");
        fs::write(&library, "library").unwrap();
        let opened = fs::metadata(&library).unwrap();
        for mount in ["one", "two"] {
            let mountinfo = format!(
                "30 22 0:40 / /{mount} rw - overlay o rw,lowerdir=/lower,upperdir=/upper-{mount},workdir=/w\n"
            );
            let path = PathBuf::from(format!("/{mount}/lib/libcuda.so.1"));
            let (real, real_path) = real_file(mountinfo.as_bytes(), &path, &opened, host.path()).unwrap();
            assert_eq!(real_path, library);
            assert_eq!(real.id(), LibraryId::of(&opened));
        }
    }

    #[test]
    fn a_layer_with_another_file_is_not_believed() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("lower")).unwrap();
        fs::write(host.path().join("lower/libcuda.so.1"), "something else").unwrap();
        let other = host.path().join("opened");
        fs::write(&other, "library").unwrap();
        let mountinfo = b"30 22 0:40 / / rw - overlay o rw,lowerdir=/lower\n";
        let opened = fs::metadata(&other).unwrap();
        assert!(real_file(mountinfo, Path::new("/libcuda.so.1"), &opened, host.path()).is_none());
    }

    proptest! {
        #[test]
        fn anything_may_stand_in_mountinfo(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = covering(&data, Path::new("/x"));
        }
    }
}
