//! The rules, as tables.

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use super::*;

/// Four GPUs of one model; 1 and 2 share the beginning of their UUIDs. NVML lists them out of PCI order here to
/// show that the address decides.
fn node() -> Vec<Gpu> {
    let gpu = |index: u32, bus: &str, uuid: &str| Gpu {
        uuid: format!("GPU-{uuid}"),
        index,
        pci_bus_id: format!("00000000:{bus}:00.0"),
        model: "H100".to_owned(),
        mig: None,
    };
    vec![
        gpu(2, "9A", "bbbb2222-0000-0000-0000-000000000002"),
        gpu(0, "1B", "aaaa0000-0000-0000-0000-000000000000"),
        gpu(3, "DB", "cccc3333-0000-0000-0000-000000000003"),
        gpu(1, "43", "bbbb1111-0000-0000-0000-000000000001"),
    ]
}

/// The node with MIG on GPU 1 (two devices) and GPU 3 (none).
fn mig_node() -> Vec<Gpu> {
    let mut gpus = node();
    for gpu in &mut gpus {
        gpu.mig = match gpu.index {
            1 => Some(vec![mig_device("5555aaaa", 13), mig_device("5555bbbb", 14)]),
            3 => Some(Vec::new()),
            _ => None,
        };
    }
    gpus
}

fn mig_device(uuid: &str, gpu_instance_id: u32) -> MigDevice {
    MigDevice { uuid: format!("MIG-{uuid}"), gpu_instance_id, compute_instance_id: 0 }
}

fn mixed_node() -> Vec<Gpu> {
    let mut gpus = node();
    gpus.iter_mut().filter(|gpu| gpu.index == 3).for_each(|gpu| gpu.model = "T4".to_owned());
    gpus
}

/// NVML indices of the visible GPUs, or `1/0` for a MIG device by its parent's index and its own.
fn indices(environment: &Environment<'_>, gpus: &[Gpu]) -> Result<Vec<String>, NotKnowable> {
    let name = |uuid: &String| {
        for gpu in gpus {
            if gpu.uuid == *uuid {
                return gpu.index.to_string();
            }
            if let Some(at) = gpu.mig.iter().flatten().position(|mig| mig.uuid == *uuid) {
                return format!("{}/{at}", gpu.index);
            }
        }
        panic!("{uuid} is no device of the node")
    };
    visible_devices(environment, gpus).map(|uuids| uuids.iter().map(name).collect())
}

fn cuda(list: &str) -> Environment<'_> {
    Environment { cuda_visible_devices: Some(list), ..Environment::default() }
}

#[test]
fn an_absent_list_shows_every_gpu_by_pci_address() {
    assert_eq!(
        indices(&Environment::default(), &node()),
        Ok(["0", "1", "2", "3"].map(String::from).to_vec())
    );
}

#[test]
fn lists_are_read_as_the_driver_does() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("0", &["0"]),
        ("2,0", &["2", "0"]),
        (" 2 , 0 ", &["2", "0"]),
        ("0,0", &[]),
        ("0,1,00", &[]),
        ("16", &[]),
        ("-1", &[]),
        ("0,-1,1", &["0"]),
        ("0,235,1", &["0"]),
        ("0abc", &["0"]),
        ("+1", &["1"]),
        ("abc", &[]),
        ("1,abc,2", &["1"]),
        ("1,,2", &["1"]),
        ("NoDevFiles", &[]),
        ("99999999999999999999", &[]),
        ("GPU-cccc3333-0000-0000-0000-000000000003,GPU-aaaa0000-0000-0000-0000-000000000000", &["3", "0"]),
        ("GPU-cccc,GPU-aaaa", &["3", "0"]),
        ("GPU-bbbb1", &["1"]),
        ("GPU-BBBB1", &["1"]),
        ("GPU-cccc,0", &["3"]),
        ("0,GPU-cccc", &["0"]),
        ("GPU-cccc,GPU-cccc3", &[]),
        ("MIG-GPU-cccc/x/0", &[]),
    ];
    for (list, expected) in cases {
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(indices(&cuda(list), &node()), Ok(expected), "{list}");
    }
}

#[test]
fn names_that_fit_none_or_several_are_not_knowable() {
    let unknown = |text: &str| Err(NotKnowable::UnknownDevice(text.to_owned()));
    assert_eq!(indices(&cuda("GPU-dddd"), &node()), unknown("GPU-dddd"));
    assert_eq!(indices(&cuda("GPU-cccc,GPU-dddd"), &node()), unknown("GPU-dddd"));
    assert_eq!(indices(&cuda("MIG-5555aaaa"), &node()), unknown("MIG-5555aaaa"));
    assert_eq!(indices(&cuda("MIG-GPU-cccc/1/0"), &node()), unknown("MIG-GPU-cccc/1/0"));
    assert_eq!(indices(&cuda("GPU-bbbb"), &node()), Err(NotKnowable::Ambiguous("GPU-bbbb".to_owned())));
}

#[test]
fn at_most_one_mig_device_is_visible() {
    let cases: &[(Option<&str>, &[&str])] = &[
        (None, &["1/0"]),
        (Some("0,2"), &["0", "2"]),
        (Some("1"), &["1/0"]),
        (Some("0,1,2"), &["1/0"]),
        (Some("3"), &[]),
        (Some("3,0"), &["0"]),
        (Some("GPU-bbbb1111"), &["1/0"]),
        (Some("MIG-5555bbbb"), &["1/1"]),
        (Some("MIG-5555bbbb,MIG-5555aaaa"), &["1/1"]),
        (Some("GPU-aaaa,MIG-5555bbbb"), &["1/1"]),
        (Some("MIG-GPU-bbbb1111-0000-0000-0000-000000000001/14/0"), &["1/1"]),
        (Some("MIG-GPU-bbbb1/13/0"), &["1/0"]),
    ];
    for (list, expected) in cases {
        let environment = Environment { cuda_visible_devices: *list, ..Environment::default() };
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(indices(&environment, &mig_node()), Ok(expected), "{list:?}");
    }
}

#[test]
fn indices_mean_nothing_on_a_mixed_node_without_pci_order() {
    let gpus = mixed_node();
    for order in [None, Some("FASTEST_FIRST"), Some("pci_bus_id")] {
        let environment = Environment { cuda_device_order: order, ..Environment::default() };
        assert_eq!(indices(&environment, &gpus), Err(NotKnowable::FastestFirst));
        let listed = Environment { cuda_visible_devices: Some("0"), ..environment };
        assert_eq!(indices(&listed, &gpus), Err(NotKnowable::FastestFirst));
        let by_uuid = Environment { cuda_visible_devices: Some("GPU-cccc,GPU-aaaa"), ..environment };
        assert_eq!(indices(&by_uuid, &gpus), Ok(vec!["3".to_owned(), "0".to_owned()]));
        let hidden = Environment { cuda_visible_devices: Some(""), ..environment };
        assert_eq!(indices(&hidden, &gpus), Ok(Vec::new()));
    }
    let pci =
        Environment { cuda_visible_devices: Some("3,0"), cuda_device_order: Some("PCI_BUS_ID"), ..cuda("") };
    assert_eq!(indices(&pci, &gpus), Ok(vec!["3".to_owned(), "0".to_owned()]));
}

#[test]
fn the_container_narrows_what_ordinals_count() {
    let cases: &[(&str, Option<&str>, &[&str])] = &[
        ("all", None, &["0", "1", "2", "3"]),
        ("none", None, &[]),
        ("3,1", None, &["1", "3"]),
        ("3,1", Some("1"), &["3"]),
        ("3,1", Some("2"), &[]),
        (
            "GPU-cccc3333-0000-0000-0000-000000000003,GPU-aaaa0000-0000-0000-0000-000000000000",
            None,
            &["0", "3"],
        ),
        ("GPU-cccc3333-0000-0000-0000-000000000003::2", Some("0"), &["3"]),
    ];
    for (container, list, expected) in cases {
        let environment = Environment {
            cuda_visible_devices: *list,
            container_devices: Some(container),
            ..Environment::default()
        };
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(indices(&environment, &node()), Ok(expected), "{container} {list:?}");
    }
}

#[test]
fn the_container_narrows_mig_devices_too() {
    let in_container =
        |container| Environment { container_devices: Some(container), ..Environment::default() };
    assert_eq!(indices(&in_container("MIG-5555bbbb"), &mig_node()), Ok(vec!["1/1".to_owned()]));
    assert_eq!(indices(&in_container("1:1"), &mig_node()), Ok(vec!["1/1".to_owned()]));
    let other = Environment { cuda_visible_devices: Some("MIG-5555aaaa"), ..in_container("MIG-5555bbbb") };
    assert_eq!(indices(&other, &mig_node()), Err(NotKnowable::UnknownDevice("MIG-5555aaaa".to_owned())));
}

#[test]
fn one_model_in_the_container_makes_a_mixed_node_knowable() {
    let environment = Environment { container_devices: Some("2,0"), ..Environment::default() };
    assert_eq!(indices(&environment, &mixed_node()), Ok(vec!["0".to_owned(), "2".to_owned()]));
}

#[test]
fn a_container_that_got_its_devices_otherwise_is_not_knowable() {
    for container in ["void", "", "/var/run/nvidia-container-devices"] {
        let environment = Environment { container_devices: Some(container), ..Environment::default() };
        let expected = Err(NotKnowable::ContainerDevices(container.to_owned()));
        assert_eq!(indices(&environment, &node()), expected, "{container}");
    }
    let stale = Environment { container_devices: Some("7"), ..Environment::default() };
    assert_eq!(indices(&stale, &node()), Err(NotKnowable::UnknownDevice("7".to_owned())));
}

#[test]
fn addresses_sort_by_number() {
    assert_eq!(pci_address("00000000:1B:00.0"), pci_address("0000:1b:00.0"));
    assert!(pci_address("00000001:02:00.0") > pci_address("00000000:FF:00.0"));
    assert_eq!(pci_address("1B:00.0"), None);
}

fn list() -> impl Strategy<Value = String> {
    let entry = prop_oneof![
        any::<i8>().prop_map(|index| index.to_string()),
        Just("GPU-aaaa".to_owned()),
        Just("GPU-bbbb".to_owned()),
        Just("MIG-5555aaaa".to_owned()),
        Just("MIG-GPU-bbbb1/13/0".to_owned()),
        "\\PC{0,12}",
    ];
    proptest::collection::vec(entry, 0..6).prop_map(|entries| entries.join(","))
}

proptest! {
    #[test]
    fn any_list_gives_known_devices_at_most_once(list in list(), container in list()) {
        let gpus = mig_node();
        let environment = Environment {
            cuda_visible_devices: Some(&list),
            container_devices: (!container.is_empty()).then_some(container.as_str()),
            ..Environment::default()
        };
        if let Ok(visible) = indices(&environment, &gpus) {
            let mut unique = visible.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), visible.len());
            assert!(visible.len() == 1 || visible.iter().all(|name| !name.contains('/')));
        }
    }
}
