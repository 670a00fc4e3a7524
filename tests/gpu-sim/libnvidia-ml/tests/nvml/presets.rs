//! Static facts: NVML says of each preset what its scenario says.

use gpu_sim::scenario::{Gpu, NvlinkPeer, PRESETS, PciePath};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{
    Brand, Clock, P2pCapabilitiesIndex, P2pStatus, TemperatureSensor, TemperatureThreshold, TopologyLevel,
};
use nvml_wrapper::enums::device::DeviceArchitecture;
use nvml_wrapper::error::NvmlError;

use crate::support::{Installation, install};

fn each_gpu(check: impl Fn(&Installation, usize, &Gpu, &Device<'_>)) {
    for preset in PRESETS {
        let installation = install(preset.name);
        let nvml = installation.nvml();
        let gpus = &installation.scenario().gpus;
        assert_eq!(nvml.device_count().unwrap() as usize, gpus.len());
        for (index, gpu) in gpus.iter().enumerate() {
            let device = nvml.device_by_index(u32::try_from(index).unwrap()).unwrap();
            check(&installation, index, gpu, &device);
        }
    }
}

/// `Ok` where the card has it, "not supported" where not; anything else is wrong.
#[track_caller]
fn has<T: std::fmt::Debug>(result: Result<T, NvmlError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(NvmlError::NotSupported) => None,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn versions() {
    let installation = install("8xH100-nvswitch");
    let nvml = installation.nvml();
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.95.05");
    assert_eq!(nvml.sys_nvml_version().unwrap(), "13.580.95.05");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13_000);
}

#[test]
fn identity() {
    each_gpu(|_, index, gpu, device| {
        assert_eq!(device.uuid().unwrap(), gpu.uuid);
        assert_eq!(device.name().unwrap(), gpu.model.name);
        assert_eq!(device.serial().unwrap(), gpu.serial);
        assert_eq!(device.index().unwrap() as usize, index);
        assert_eq!(device.minor_number().unwrap(), gpu.minor);
        assert_eq!(device.vbios_version().unwrap(), gpu.model.vbios);
        assert_eq!(device.board_part_number().unwrap(), gpu.model.board_part_number);
        assert_eq!(device.num_cores().unwrap(), gpu.model.core_count);
        let capability = device.cuda_compute_capability().unwrap();
        assert_eq!(
            (capability.major.cast_unsigned(), capability.minor.cast_unsigned()),
            gpu.model.compute_capability
        );
        assert_eq!(
            device.architecture().unwrap(),
            DeviceArchitecture::try_from(gpu.model.architecture).unwrap()
        );
        let brand = if gpu.model.name.starts_with("Tesla") { Brand::Tesla } else { Brand::Nvidia };
        assert_eq!(device.brand().unwrap(), brand);
        let pci = device.pci_info().unwrap();
        assert_eq!(pci.bus_id, gpu.pci.bus_id());
        assert_eq!((pci.domain, pci.bus, pci.device), (gpu.pci.domain, gpu.pci.bus, gpu.pci.device));
        assert_eq!(pci.pci_device_id, gpu.model.pci_device_id);
        assert_eq!(pci.pci_sub_system_id, Some(gpu.model.pci_subsystem_id));
    });
}

#[test]
fn a_gpu_is_found_by_each_of_its_names() {
    let installation = install("2xA10");
    let nvml = installation.nvml();
    let gpu = &installation.scenario().gpus[1];
    let found = [
        nvml.device_by_uuid(gpu.uuid.as_str()).unwrap().index().unwrap(),
        nvml.device_by_pci_bus_id(gpu.pci.bus_id()).unwrap().index().unwrap(),
        nvml.device_by_pci_bus_id(gpu.pci.short_bus_id()).unwrap().index().unwrap(),
    ];
    assert_eq!(found, [1; 3]);
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
    assert!(matches!(nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
}

#[test]
fn memory() {
    each_gpu(|_, _, gpu, device| {
        let memory = device.memory_info().unwrap();
        let facts = &gpu.model.memory;
        assert_eq!(
            (memory.total, memory.reserved, memory.used),
            (facts.total_bytes, facts.reserved_bytes, 0)
        );
        assert_eq!(memory.free, facts.total_bytes - facts.reserved_bytes);
        assert_eq!(device.memory_bus_width().unwrap(), facts.bus_width_bits);
        assert_eq!(device.bar1_memory_info().unwrap().total, facts.bar1_bytes);
    });
}

#[test]
fn power_temperature_and_clocks() {
    each_gpu(|_, _, gpu, device| {
        let model = &gpu.model;
        assert_eq!(device.power_usage().unwrap(), model.power.idle_mw);
        assert_eq!(device.enforced_power_limit().unwrap(), model.power.limit_mw);
        let limits = device.power_management_limit_constraints().unwrap();
        assert_eq!(
            (limits.min_limit, limits.max_limit),
            (model.power.min_limit_mw, model.power.max_limit_mw)
        );
        assert_eq!(device.total_energy_consumption().unwrap(), 0);
        assert_eq!(device.temperature(TemperatureSensor::Gpu).unwrap(), model.temperature.idle_celsius);
        let threshold = |which| device.temperature_threshold(which).unwrap();
        assert_eq!(threshold(TemperatureThreshold::Slowdown), model.temperature.slowdown_celsius);
        assert_eq!(threshold(TemperatureThreshold::Shutdown), model.temperature.shutdown_celsius);
        assert_eq!(device.clock_info(Clock::SM).unwrap(), model.clocks.idle_sm_mhz);
        assert_eq!(device.clock_info(Clock::Memory).unwrap(), model.clocks.idle_memory_mhz);
        assert_eq!(device.max_clock_info(Clock::SM).unwrap(), model.clocks.max_sm_mhz);
        assert_eq!(device.max_clock_info(Clock::Video).unwrap(), model.clocks.max_video_mhz);
        device.performance_state().unwrap();
    });
}

#[test]
fn pcie() {
    each_gpu(|_, _, gpu, device| {
        assert_eq!(device.max_pcie_link_gen().unwrap(), gpu.model.pcie.generation);
        assert_eq!(device.max_pcie_link_width().unwrap(), gpu.model.pcie.width);
        assert_eq!(device.current_pcie_link_width().unwrap(), gpu.model.pcie.width);
        assert_eq!(device.pcie_replay_counter().unwrap(), 0);
    });
}

#[test]
fn what_a_card_lacks_is_not_supported() {
    each_gpu(|_, _, gpu, device| {
        let model = &gpu.model;
        assert_eq!(has(device.fan_speed(0)).is_some(), model.fan_count > 0);
        assert_eq!(device.num_fans().unwrap(), model.fan_count);
        assert_eq!(has(device.mig_mode()).map(|mode| mode.current), model.mig_capable.then_some(0));
        assert_eq!(device.gpm_support().unwrap(), model.gpm);
        assert_eq!(has(device.gpm_sample()).is_some(), model.gpm);
        assert_eq!(has(device.encoder_utilization()).is_some(), model.encoder_count > 0);
        assert_eq!(has(device.decoder_utilization()).is_some(), model.decoder_count > 0);
        assert_eq!(has(device.link_wrapper_for(0).is_active()).is_some(), !gpu.nvlink_peers.is_empty());
        assert!(has(device.numa_node_id()).is_none(), "only GPUs that are NUMA nodes themselves");
        assert!(has(device.active_vgpus().map(|_| ())).is_none());
    });
}

#[test]
fn nvlinks_lead_where_the_scenario_says() {
    each_gpu(|installation, _, gpu, device| {
        for (link, peer) in gpu.nvlink_peers.iter().enumerate() {
            let nvlink = device.link_wrapper_for(u32::try_from(link).unwrap());
            assert!(nvlink.is_active().unwrap());
            assert_eq!(nvlink.version().unwrap(), gpu.model.nvlink_version);
            let remote = nvlink.remote_pci_info().unwrap();
            let place = (remote.domain, remote.bus, remote.device);
            let gpus = &installation.scenario().gpus;
            let found = gpus.iter().position(|gpu| (gpu.pci.domain, gpu.pci.bus, gpu.pci.device) == place);
            match peer {
                NvlinkPeer::Gpu(index) => assert_eq!(found, Some(*index as usize)),
                NvlinkPeer::Switch(_) => assert_eq!(found, None),
            }
        }
        if !gpu.nvlink_peers.is_empty() {
            let beyond = u32::try_from(gpu.nvlink_peers.len()).unwrap();
            assert!(matches!(device.link_wrapper_for(beyond).is_active(), Err(NvmlError::InvalidArg)));
        }
    });
}

#[test]
fn topology() {
    each_gpu(|installation, index, gpu, device| {
        let nvml = device.nvml();
        let scenario = installation.scenario();
        for other in (0..scenario.gpus.len()).filter(|other| *other != index) {
            let peer = nvml.device_by_index(u32::try_from(other).unwrap()).unwrap();
            let linked = scenario.nvlinks_between(index, other) > 0;
            let status = device.p2p_status(&peer, P2pCapabilitiesIndex::NvLink).unwrap();
            assert_eq!(matches!(status, P2pStatus::Ok), linked);
            let expected = match scenario.pcie_path(index, other).unwrap() {
                PciePath::Switch => TopologyLevel::Single,
                PciePath::Node => TopologyLevel::Node,
                PciePath::System => TopologyLevel::System,
            };
            assert_eq!(device.topology_common_ancestor(peer).unwrap(), expected);
        }
        let near = device.topology_nearest_gpus(TopologyLevel::Single).unwrap().len();
        let others = scenario.gpus.iter().filter(|other| other.pcie_switch == gpu.pcie_switch).count();
        assert_eq!(near, others - 1);
        let cpus = device.cpu_affinity(4).unwrap();
        assert_eq!(cpus.iter().map(|word| word.count_ones()).sum::<u32>(), 32);
        assert_eq!(device.memory_affinity(1, 0).unwrap(), [1 << gpu.numa_node]);
    });
}
