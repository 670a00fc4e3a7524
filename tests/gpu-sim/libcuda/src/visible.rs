//! CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: which GPUs a process sees, and in which order.
//!
//! The rules are those that nvitop documents and tests against the real driver: an empty value hides all GPUs, the list
//! ends at its first invalid entry, a duplicate hides all, integers are parsed like C's atoi, UUIDs may be abbreviated,
//! and a list that mixes both forms ends where the form changes.

use gpu_sim::scenario::Scenario;

/// Indices (in the machine's order) of the visible GPUs, by CUDA ordinal.
pub(crate) fn visible_gpus(scenario: &Scenario, devices: Option<&str>, order: Option<&str>) -> Vec<usize> {
    let enumerated = enumerate(scenario, order);
    match devices {
        None => enumerated,
        Some(list) => select(scenario, &enumerated, list),
    }
}

/// All GPUs, fastest first unless the order asks for PCI bus ids. GPUs of equal speed keep PCI order.
fn enumerate(scenario: &Scenario, order: Option<&str>) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..scenario.gpus.len()).collect();
    if order != Some("PCI_BUS_ID") {
        indices.sort_by_key(|index| {
            let model = &scenario.gpus[*index].model;
            std::cmp::Reverse(u64::from(model.core_count) * u64::from(model.clocks.max_sm_mhz))
        });
    }
    indices
}

fn select(scenario: &Scenario, enumerated: &[usize], list: &str) -> Vec<usize> {
    let mut selected = Vec::new();
    let mut by_uuid = None;
    for entry in list.split(',') {
        let entry = entry.trim();
        let is_uuid = entry.starts_with("GPU-");
        if *by_uuid.get_or_insert(is_uuid) != is_uuid {
            break;
        }
        let found = if is_uuid {
            unique_prefix(scenario, entry)
        } else {
            leading_integer(entry).and_then(|ordinal| enumerated.get(ordinal).copied())
        };
        let Some(index) = found else { break };
        if selected.contains(&index) {
            return Vec::new();
        }
        selected.push(index);
    }
    selected
}

/// The only GPU whose UUID starts with `prefix`.
fn unique_prefix(scenario: &Scenario, prefix: &str) -> Option<usize> {
    let prefix = prefix.to_ascii_lowercase().replacen("gpu-", "GPU-", 1);
    let mut matches = scenario
        .gpus
        .iter()
        .enumerate()
        .filter(|(_, gpu)| gpu.uuid.starts_with(&prefix))
        .map(|(index, _)| index);
    let first = matches.next().filter(|_| prefix.len() > "GPU-".len())?;
    matches.next().is_none().then_some(first)
}

/// What C's atoi makes of the text, where that is not negative. Text without digits is invalid, unlike in atoi.
fn leading_integer(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(list: &str) -> Vec<usize> {
        let scenario = Scenario::preset("8xV100-hybrid-cube-mesh").expect("preset");
        visible_gpus(&scenario, Some(list), None)
    }

    fn uuid(index: usize, length: usize) -> String {
        let scenario = Scenario::preset("8xV100-hybrid-cube-mesh").expect("preset");
        scenario.gpus[index].uuid[..length].to_owned()
    }

    #[test]
    fn integers() {
        for (list, expected) in [
            ("0", vec![0]),
            ("3,1", vec![3, 1]),
            ("", vec![]),
            ("0,0", vec![]),
            ("1,2,1", vec![]),
            ("16", vec![]),
            ("0,235,1", vec![0]),
            ("0,-1,1", vec![0]),
            ("-1", vec![]),
            ("0abc", vec![0]),
            ("+1", vec![1]),
            (" 2 , 4", vec![2, 4]),
            ("0,,1", vec![0]),
            ("none", vec![]),
        ] {
            assert_eq!(visible(list), expected, "`{list}`");
        }
    }

    #[test]
    fn uuids_may_be_abbreviated_and_end_a_list_of_integers() {
        assert_eq!(visible(&uuid(3, 40)), [3]);
        assert_eq!(visible(&format!("{},{}", uuid(5, 12), uuid(2, 12))), [5, 2]);
        assert_eq!(visible(&format!("1,{}", uuid(2, 40))), [1]);
        assert_eq!(visible(&format!("{},1", uuid(2, 40))), [2]);
        assert_eq!(visible(&format!("{0},{0}", uuid(2, 40))), [0_usize; 0]);
        assert_eq!(visible("GPU-"), [0_usize; 0]);
        assert_eq!(visible("GPU-00000000-0000"), [0_usize; 0]);
    }

    #[test]
    fn without_the_variable_all_are_visible() {
        let scenario = Scenario::preset("2xA10").expect("preset");
        assert_eq!(visible_gpus(&scenario, None, None), [0, 1]);
    }

    #[test]
    fn the_fastest_gpu_comes_first_unless_pci_order_is_asked_for() {
        let mut scenario = Scenario::preset("2xA10").expect("preset");
        scenario.gpus[0].model.core_count /= 2;
        assert_eq!(visible_gpus(&scenario, None, None), [1, 0]);
        assert_eq!(visible_gpus(&scenario, None, Some("PCI_BUS_ID")), [0, 1]);
        assert_eq!(visible_gpus(&scenario, Some("0"), None), [1]);
    }
}
