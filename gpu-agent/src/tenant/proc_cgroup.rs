//! `/proc/<pid>/cgroup`: a line for each hierarchy that the process is in, on cgroup v1, v2 and mixtures.

use thiserror::Error;

use super::cgroup_path::{CgroupPath, innermost};

/// The lines of one process, as far as they matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcCgroup {
    /// Path in the v2 hierarchy.
    pub unified: Option<String>,
    /// Path in the hierarchy that says most: the first that names a container, then one that names a pod,
    /// then the v2 path, systemd's own and any other that is not the root.
    pub telling: Option<String>,
    /// The process's cgroup was removed; it is kept alive by the process alone.
    pub removed: bool,
}

/// The lines contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("process is in cgroups of two pods, `{first}` and `{second}`, so it belongs to neither for certain")]
pub struct ConflictingPods {
    /// Pod UID in one hierarchy.
    pub first: String,
    /// Pod UID in another.
    pub second: String,
}

/// Reads the file's text; lines that are not of the form `id:controllers:path` are passed over.
///
/// # Errors
///
/// Two hierarchies that place the process in different pods.
pub fn parse(text: &str) -> Result<ProcCgroup, ConflictingPods> {
    let mut read = ProcCgroup::default();
    let mut pod: Option<String> = None;
    let mut best: Option<(Rank, String)> = None;
    for (controllers, path) in text.lines().filter_map(split_line) {
        let (path, removed) = match path.strip_suffix(" (deleted)") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let named = innermost(path);
        if let Some(uid) = &named.pod_uid {
            match &pod {
                Some(first) if first != uid => {
                    return Err(ConflictingPods { first: first.clone(), second: uid.clone() });
                }
                _ => pod = Some(uid.clone()),
            }
        }
        if controllers.is_empty() {
            read.unified = Some(path.to_owned());
            read.removed = removed;
        }
        let rank = rank(controllers, path, &named);
        if best.as_ref().is_none_or(|(best, _)| rank > *best) {
            best = Some((rank, path.to_owned()));
        }
    }
    read.telling = best.map(|(_, path)| path);
    Ok(read)
}

/// How much a line says, least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Root,
    Controller,
    Systemd,
    Unified,
    Pod,
    Container,
}

fn rank(controllers: &str, path: &str, named: &CgroupPath) -> Rank {
    if named.container_id.is_some() {
        Rank::Container
    } else if named.pod_uid.is_some() {
        Rank::Pod
    } else if path == "/" {
        Rank::Root
    } else {
        match controllers {
            "" => Rank::Unified,
            "name=systemd" => Rank::Systemd,
            _ => Rank::Controller,
        }
    }
}

/// Splits `id:controllers:path`; the path may hold colons.
fn split_line(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    (is_id && path.starts_with('/')).then_some((controllers, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    const UID: &str = "0b7d6c1e-91aa-4c3f-8f52-d2c9e8a7b614";
    const OTHER_UID: &str = "1c7d6c1e-91aa-4c3f-8f52-d2c9e8a7b614";
    const ID: &str = "aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40";

    fn telling(text: &str) -> Option<String> {
        parse(text).expect("lines agree").telling
    }

    #[test]
    fn a_v2_host_has_one_line() {
        let read = parse("0::/system.slice/train.service\n").expect("one line");
        assert_eq!(read.unified.as_deref(), Some("/system.slice/train.service"));
        assert_eq!(read.unified, read.telling);
    }

    #[test]
    fn on_a_hybrid_host_the_line_with_the_container_wins() {
        let v1 = format!(
            "12:memory:/kubepods/pod{UID}/{ID}\n1:name=systemd:/\n0::/system.slice/kubelet.service\n"
        );
        assert_eq!(telling(&v1), Some(format!("/kubepods/pod{UID}/{ID}")));
        let v2 = format!("5:cpuset:/\n1:name=systemd:/x\n0::/docker/{ID}\n");
        assert_eq!(telling(&v2), Some(format!("/docker/{ID}")));
    }

    #[test]
    fn the_first_of_several_containers_wins() {
        let other = ID.replace("aa", "ab");
        assert_eq!(
            telling(&format!("4:cpu:/docker/{ID}\n0::/docker/{other}\n")),
            Some(format!("/docker/{ID}"))
        );
    }

    #[test]
    fn without_a_container_v2_goes_before_systemd_before_controllers() {
        assert_eq!(telling("4:memory:/m\n1:name=systemd:/s\n0::/u\n").as_deref(), Some("/u"));
        assert_eq!(telling("4:memory:/m\n1:name=systemd:/s\n0::/\n").as_deref(), Some("/s"));
        assert_eq!(telling("4:memory:/m\n0::/\n").as_deref(), Some("/m"));
        assert_eq!(telling("4:memory:/\n0::/\n").as_deref(), Some("/"));
    }

    #[test]
    fn different_pods_are_refused() {
        let text = format!("4:memory:/kubepods/pod{UID}/{ID}\n0::/kubepods/pod{OTHER_UID}/{ID}\n");
        let expected = ConflictingPods { first: UID.to_owned(), second: OTHER_UID.to_owned() };
        assert_eq!(parse(&text), Err(expected));
    }

    #[test]
    fn a_removed_cgroup_keeps_its_name() {
        let read = parse(&format!("0::/docker/{ID} (deleted)\n")).expect("one line");
        assert_eq!((read.removed, read.unified), (true, Some(format!("/docker/{ID}"))));
    }

    #[test]
    fn colons_belong_to_the_path_and_other_lines_to_nothing() {
        assert_eq!(telling("0::/a:b:c").as_deref(), Some("/a:b:c"));
        assert_eq!(parse("\n::/a\nx:y\n1:cpu:relative\n"), Ok(ProcCgroup::default()));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9]:|:|/|pod|name=systemd|0::|\\n|\\PC){0,40}") {
            if let Ok(read) = parse(&text) {
                for path in [read.unified, read.telling].into_iter().flatten() {
                    assert!(path.starts_with('/') && text.contains(&path));
                }
            }
        }
    }
}
