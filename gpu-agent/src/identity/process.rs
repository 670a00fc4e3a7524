//! Reads `/proc/<pid>/stat`, `status` and `environ`. All of them hold text that the process chooses.

use std::collections::BTreeMap;

/// Clock ticks a second in procfs (`USER_HZ`, 100 on every architecture that GPUs run on).
const TICKS_PER_SECOND: u64 = 100;
const NANOSECONDS_PER_TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// What of a process's environment decides which GPUs it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuEnvironment {
    /// `CUDA_VISIBLE_DEVICES`; `None` when absent, which differs from empty.
    pub cuda_visible_devices: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub cuda_device_order: Option<String>,
    /// `NVIDIA_VISIBLE_DEVICES`, which the container runtime obeyed.
    pub nvidia_visible_devices: Option<String>,
}

/// What `/proc/<pid>/stat` says of a process that both its identity and the search for libraries need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Start time after boot, in clock ticks (field 22).
    pub start_ticks: u64,
    /// Size of the address space, in bytes (field 23); 0 for a kernel thread.
    pub address_space_bytes: u64,
}

impl Stat {
    /// Reads `/proc/<pid>/stat`; `None` where it is cut off.
    pub fn parse(stat: &[u8]) -> Option<Self> {
        let mut fields = fields_from_start_time(stat)?;
        Some(Self {
            start_ticks: fields.next()?.parse().ok()?,
            address_space_bytes: fields.next()?.parse().ok()?,
        })
    }
}

/// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
pub fn start_time_ticks(stat: &[u8]) -> Option<u64> {
    fields_from_start_time(stat)?.next()?.parse().ok()
}

/// Field 22 and those behind it. The name in field 2 may hold spaces and brackets, so fields are counted from
/// the last bracket.
fn fields_from_start_time(stat: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace().skip(19))
}

/// A start time in ticks as nanoseconds since boot.
pub fn nanoseconds(ticks: u64) -> u64 {
    ticks.saturating_mul(NANOSECONDS_PER_TICK)
}

/// Whether a start time in nanoseconds, as the kernel has it, is the one that procfs shows in ticks.
pub fn is_same_start(start_time_ns: u64, ticks: u64) -> bool {
    start_time_ns / NANOSECONDS_PER_TICK == ticks
}

/// The process's id in each pid namespace, the outermost first: `NSpid` of `/proc/<pid>/status`.
pub fn namespace_pids(status: &[u8]) -> Option<Vec<u32>> {
    let pids: Option<Vec<u32>> = status_fields(status, b"NSpid:")?.map(|pid| pid.parse().ok()).collect();
    pids.filter(|pids| !pids.is_empty())
}

/// The real user id: the first of `Uid` in `/proc/<pid>/status`.
pub fn real_uid(status: &[u8]) -> Option<u32> {
    status_fields(status, b"Uid:")?.next()?.parse().ok()
}

/// The variables that matter here, from `/proc/<pid>/environ`. It holds the environment at the last exec, not
/// what the process set later. Where a name occurs twice the first counts, as for `getenv`. A value that is not
/// UTF-8 is replaced in part, so that it is present but matches no device.
pub fn gpu_environment(environ: &[u8]) -> GpuEnvironment {
    let mut found: BTreeMap<&[u8], String> = BTreeMap::new();
    for entry in environ.split(|byte| *byte == 0) {
        let Some(equals) = entry.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = entry.split_at(equals);
        if NAMES.contains(&name) {
            let value = String::from_utf8_lossy(value.get(1..).unwrap_or_default());
            found.entry(name).or_insert_with(|| value.into_owned());
        }
    }
    let [visible, order, container] = NAMES.map(|name| found.remove(name));
    GpuEnvironment {
        cuda_visible_devices: visible,
        cuda_device_order: order,
        nvidia_visible_devices: container,
    }
}

const NAMES: [&[u8]; 3] = [b"CUDA_VISIBLE_DEVICES", b"CUDA_DEVICE_ORDER", b"NVIDIA_VISIBLE_DEVICES"];

/// The fields of one line of `/proc/<pid>/status`. The kernel escapes newlines in the name, so that a line is
/// always its own.
fn status_fields<'s>(status: &'s [u8], label: &[u8]) -> Option<impl Iterator<Item = &'s str> + use<'s>> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(label))?;
    Some(std::str::from_utf8(line).ok()?.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    fn stat(name: &str) -> Vec<u8> {
        format!("42 ({name}) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 20 30").into_bytes()
    }

    #[test]
    fn the_start_time_is_read_past_any_name() {
        for name in ["cuda", "a b", "a) S 1 (b", "))) 1 2 3", "", "\u{fc}"] {
            assert_eq!(start_time_ticks(&stat(name)), Some(987_654), "{name}");
        }
        let mut not_utf8 = stat("x");
        not_utf8[4] = 0xff;
        assert_eq!(start_time_ticks(&not_utf8), Some(987_654));
    }

    #[test]
    fn the_address_space_is_read_past_any_name() {
        let expected = Stat { start_ticks: 987_654, address_space_bytes: 1000 };
        assert_eq!(Stat::parse(&stat("a) R 1 2) S 1 (b")), Some(expected));
        assert_eq!(Stat::parse(b"7 (a) S 1"), None);
    }

    #[test]
    fn a_cut_off_stat_has_no_start_time() {
        for text in
            ["", "42", "42 (x", "42 (x) S 1 2 3", "42 (x) S 1 42 42 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 no"]
        {
            assert_eq!(start_time_ticks(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_own_process_has_a_start_time_and_a_pid() {
        let stat = std::fs::read("/proc/self/stat").expect("procfs is mounted");
        assert!(start_time_ticks(&stat).is_some());
        let status = std::fs::read("/proc/self/status").expect("procfs is mounted");
        assert_eq!(namespace_pids(&status).and_then(|pids| pids.first().copied()), Some(std::process::id()));
    }

    #[test]
    fn nanoseconds_and_ticks_are_compared_as_the_kernel_rounds() {
        assert!(is_same_start(9_876_540_000_000, 987_654));
        assert!(is_same_start(9_876_549_999_999, 987_654));
        assert!(!is_same_start(9_876_550_000_000, 987_654));
    }

    #[test]
    fn namespaces_and_user_are_read_from_status() {
        let status = b"Name:\tNSpid:\\n1\nUid:\t1000\t0\t0\t0\nNSpid:\t4242\t17\t1\n";
        assert_eq!(namespace_pids(status), Some(vec![4242, 17, 1]));
        assert_eq!(real_uid(status), Some(1000));
        assert_eq!(namespace_pids(b"Name:\tx\n"), None);
        assert_eq!(namespace_pids(b"NSpid:\t\n"), None);
        assert_eq!(namespace_pids(b"NSpid:\t1\tx\n"), None);
    }

    #[test]
    fn absent_and_empty_variables_differ() {
        let read = gpu_environment(b"PATH=/bin\0CUDA_VISIBLE_DEVICES=\0NVIDIA_VISIBLE_DEVICES=all\0");
        assert_eq!(read.cuda_visible_devices.as_deref(), Some(""));
        assert_eq!(read.cuda_device_order, None);
        assert_eq!(read.nvidia_visible_devices.as_deref(), Some("all"));
    }

    #[test]
    fn only_the_exact_name_counts_and_the_first_of_two() {
        let read =
            gpu_environment(b"XCUDA_VISIBLE_DEVICES=9\0CUDA_VISIBLE_DEVICES=0=1\0CUDA_VISIBLE_DEVICES=2");
        assert_eq!(read.cuda_visible_devices.as_deref(), Some("0=1"));
    }

    #[test]
    fn a_value_that_is_not_utf8_is_present() {
        let read = gpu_environment(b"CUDA_VISIBLE_DEVICES=\xff0\0");
        assert_eq!(read.cuda_visible_devices.as_deref(), Some("\u{fffd}0"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let ticks = start_time_ticks(&bytes);
            assert!(ticks.is_none() || bytes.contains(&b')'));
            assert!(Stat::parse(&bytes).is_none_or(|stat| Some(stat.start_ticks) == ticks));
            assert!(namespace_pids(&bytes).is_none_or(|pids| !pids.is_empty()));
            assert!(real_uid(&bytes).is_none() || bytes.windows(4).any(|window| window == b"Uid:"));
            let read = gpu_environment(&bytes);
            assert!(read == GpuEnvironment::default() || bytes.contains(&b'='));
        }
    }
}
