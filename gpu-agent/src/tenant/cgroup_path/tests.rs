//! Path shapes of real nodes, and paths that only look like them.

use std::path::{Path, PathBuf};

use proptest::prelude::{ProptestConfig, proptest};

use super::*;

const UID: &str = "0b7d6c1e-91aa-4c3f-8f52-d2c9e8a7b614";
const UID_SYSTEMD: &str = "0b7d6c1e_91aa_4c3f_8f52_d2c9e8a7b614";
const STATIC: &str = "5f1d3c7b9a8e4f2061d7c3b5a9e8f042";
const A: &str = "aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40";
const B: &str = "bb99887766554433221100ffeeddccbbaa99887766554433221100ffeeddccbb";

/// A path, and the pod UID and container id expected of [`innermost`].
type Case<'a> = (String, Option<&'a str>, Option<&'a str>);

fn cases() -> Vec<Case<'static>> {
    vec![
        (format!("/kubepods/burstable/pod{UID}/{A}"), Some(UID), Some(A)),
        (format!("/kubepods/pod{UID}/{A}/nested/cgroup"), Some(UID), Some(A)),
        (
            format!("/kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice/cri-containerd-{A}.scope"),
            Some(UID),
            Some(A),
        ),
        (
            format!("/kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice/crio-{A}.scope/container"),
            Some(UID),
            Some(A),
        ),
        (format!("/kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice/crio-conmon-{A}.scope"), Some(UID), None),
        (format!("/machine.slice/libpod-conmon-{A}.scope"), None, None),
        (
            format!("/system.slice/containerd.service/kubepods-pod{UID_SYSTEMD}.slice:cri-containerd:{A}"),
            Some(UID),
            Some(A),
        ),
        (format!("/kubepods/besteffort/pod{STATIC}/{A}"), Some(STATIC), Some(A)),
        (format!("/docker/{A}/kubepods/pod{UID}/{B}"), Some(UID), Some(B)),
        (format!("/docker/{A}/kubepods/pod{UID}"), Some(UID), None),
        (format!("/docker/{A}/docker/{B}"), None, Some(B)),
        (format!("/machine.slice/libpod-{A}.scope/container"), None, Some(A)),
        (format!("/../../pod{UID}/{A}"), Some(UID), Some(A)),
        ("/".to_owned(), None, None),
        (String::new(), None, None),
        ("/kubepods.slice/kubepods-besteffort.slice".to_owned(), None, None),
        ("/podruntime.slice/kubelet.service".to_owned(), None, None),
        (format!("/system.slice/run-r{STATIC}.scope"), None, None),
        (format!("/kubepods/pod{UID}0"), None, None),
        (format!("/kubepods/xpod{UID}"), None, None),
        (format!("/kubepods/pod{STATIC}0"), None, None),
        (format!("/jobs/0{A}"), None, None),
        (format!("/jobs/x{A}"), None, None),
        (format!("/jobs/{}", A.to_ascii_uppercase()), None, None),
    ]
}

#[test]
fn own_paths_give_the_expected_pod_and_container() {
    for (path, pod_uid, container_id) in cases() {
        let read = innermost(&path);
        assert_eq!(
            (read.pod_uid.as_deref(), read.container_id.as_deref()),
            (pod_uid, container_id),
            "{path}"
        );
    }
}

#[test]
fn collected_paths_give_the_expected_pod_and_container() {
    let Some(table) = shared_table() else {
        println!("SKIPPED: no cgroup-paths.tsv in $GPUSTACK_TEST_DATA or ../shared/data");
        return;
    };
    let text = std::fs::read_to_string(&table).expect("table is readable");
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let mut columns = line.split('\t');
        let mut column = || columns.next().filter(|text| !text.is_empty());
        let Some(path) = column() else { continue };
        let (pod_uid, container_id) = (column(), column());
        let read = innermost(path);
        assert_eq!(
            (read.pod_uid.as_deref(), read.container_id.as_deref()),
            (pod_uid, container_id),
            "{path}"
        );
        rows += 1;
    }
    assert!(rows > 50, "{} has only {rows} rows", table.display());
}

fn shared_table() -> Option<PathBuf> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = crate_folder.ancestors().map(|folder| folder.join("../shared/data"));
    std::env::var_os("GPUSTACK_TEST_DATA")
        .map(PathBuf::from)
        .into_iter()
        .chain(beside)
        .map(|folder| folder.join("cgroup-paths.tsv"))
        .find(|table| table.is_file())
}

#[test]
fn what_a_tenant_creates_below_its_pod_stays_its_own() {
    let forged = format!("/kubepods/pod{UID}/{A}/kubepods/pod{STATIC}/{B}/deeper");
    let owner = outermost(&forged);
    assert_eq!((owner.pod_uid.as_deref(), owner.container_id.as_deref()), (Some(UID), Some(A)));
    assert_eq!(&forged[..owner.owner_len], format!("/kubepods/pod{UID}/{A}"));
    assert_eq!(innermost(&forged).pod_uid.as_deref(), Some(STATIC));
}

#[test]
fn a_forged_pod_directly_below_a_pod_lends_it_no_container() {
    let forged = format!("/kubepods/pod{UID}/pod{STATIC}/{B}");
    let owner = outermost(&forged);
    assert_eq!((owner.pod_uid.as_deref(), owner.container_id), (Some(UID), None));
}

#[test]
fn a_container_inside_a_container_belongs_to_the_outer_one() {
    assert_eq!(outermost(&format!("/docker/{A}/docker/{B}")).container_id.as_deref(), Some(A));
    assert_eq!(outermost(&format!("/docker/{A}/kubepods/pod{UID}/{B}")).container_id.as_deref(), Some(B));
}

#[test]
fn the_path_tells_runtime_and_quality_of_service() {
    let cases = [
        (format!("/kubepods/besteffort/pod{UID}/{A}"), None, Some(Qos::BestEffort)),
        (format!("/kubepods/burstable/pod{UID}/crio-{A}"), Some(Runtime::CriO), Some(Qos::Burstable)),
        (format!("/kubepods/pod{UID}/docker-{A}.scope"), Some(Runtime::Docker), Some(Qos::Guaranteed)),
        (
            format!("/x.service/kubepods-burstable-pod{UID_SYSTEMD}.slice:cri-containerd:{A}"),
            Some(Runtime::Containerd),
            Some(Qos::Burstable),
        ),
        (format!("/../../pod{UID}/{A}"), None, None),
        (format!("/docker/{A}"), Some(Runtime::Docker), None),
        (format!("/machine.slice/libpod-{A}.scope"), Some(Runtime::Podman), None),
    ];
    for (path, runtime, qos) in cases {
        let read = innermost(&path);
        assert_eq!((read.runtime, read.qos), (runtime, qos), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_read_within_its_bounds(
        path in "(/|:|-|_|pod|kubepods|docker|crio-|\\.slice|\\.scope|[0-9a-f]{4}|[0-9a-f]{64}|é|\\PC){0,30}",
    ) {
        for read in [innermost(&path), outermost(&path)] {
            assert!(read.owner_len <= path.len() && path.is_char_boundary(read.owner_len));
            if let Some(id) = read.container_id {
                assert!(id.len() == 64 && path[..read.owner_len].contains(&id));
            }
        }
    }
}
