use super::*;

#[test]
fn every_preset_expands() {
    let counts: Vec<(&str, usize)> = PRESETS
        .iter()
        .map(|preset| (preset.name, Scenario::preset(preset.name).expect("preset").gpus.len()))
        .collect();
    assert_eq!(counts, [("1xT4", 1), ("2xA10", 2), ("8xH100-nvswitch", 8), ("8xV100-hybrid-cube-mesh", 8)]);
}

#[test]
fn identities_are_distinct_and_stable() {
    let scenario = Scenario::preset("2xA10").expect("preset");
    assert_ne!(scenario.gpus[0].uuid, scenario.gpus[1].uuid);
    assert_eq!(scenario, Scenario::preset("2xA10").expect("preset"));
    assert_eq!(format_uuid(scenario.gpus[0].uuid_bytes()), scenario.gpus[0].uuid);
}

#[test]
fn a_hybrid_cube_mesh_has_six_symmetric_links_for_each_gpu() {
    let scenario = Scenario::preset("8xV100-hybrid-cube-mesh").expect("preset");
    for left in 0..8 {
        assert_eq!((0..8).map(|right| scenario.nvlinks_between(left, right)).sum::<usize>(), 6);
        for right in 0..8 {
            assert_eq!(scenario.nvlinks_between(left, right), scenario.nvlinks_between(right, left));
        }
    }
    assert_eq!(scenario.nvlinks_between(0, 3), 2);
    assert_eq!(scenario.nvlinks_between(0, 5), 0);
}

#[test]
fn an_nvswitch_joins_every_pair_with_all_links() {
    let scenario = Scenario::preset("8xH100-nvswitch").expect("preset");
    assert_eq!(scenario.nvlinks_between(0, 7), 18);
    assert_eq!(scenario.nvlinks_between(3, 3), 0);
    assert_eq!(scenario.pcie_path(0, 1), Some(PciePath::Node));
    assert_eq!(scenario.pcie_path(0, 4), Some(PciePath::System));
}

#[test]
fn a_wrong_value_is_named() {
    let text = PRESETS[1].text.replace("pcie_switch = 1", "pcie_switch = 1\nnvlink_gpus = [7]");
    let error = Scenario::parse("bad.toml", &text).expect_err("peer 7 does not exist");
    assert_eq!(
        error.to_string(),
        "scenario `bad.toml`: `gpu[1].nvlink_gpus` is `7`, expected the index of another GPU"
    );
}

#[test]
fn bus_ids_have_both_forms() {
    let pci = Pci { domain: 0, bus: 0x17, device: 0 };
    assert_eq!(pci.bus_id(), "00000000:17:00.0");
    assert_eq!(pci.short_bus_id(), "0000:17:00.0");
}
