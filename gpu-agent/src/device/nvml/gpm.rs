//! GPU performance monitoring: use of pipes, memory bandwidth and links between two samples (Hopper and later).

use std::collections::BTreeMap;

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC;

use super::gather::Gather;
use super::links::LINKS_MAX;
use crate::device::reading::Pipes;
use crate::device::sentinel::{bytes_per_second_from_mib, ratio_from_percent_f64};

const GENERAL: [GpmMetricId; 11] = [
    GpmMetricId::GraphicsUtil,
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::IntegerUtil,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::Fp16Util,
    GpmMetricId::Fp32Util,
    GpmMetricId::Fp64Util,
    GpmMetricId::DramBwUtil,
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::PcieRxPerSec,
];

/// Transmit follows receive, and link follows link (`nvml.h`).
const LINK_0_RECEIVE: u32 = nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC;

/// A GPU's last sample, against which the next one is measured.
#[derive(Debug)]
pub(super) struct Gpm<'nvml> {
    supported: bool,
    last: Option<GpmSample<'nvml>>,
}

impl<'nvml> Gpm<'nvml> {
    pub(super) fn new(device: &Device<'nvml>) -> Self {
        Self { supported: device.gpm_support().unwrap_or(false), last: None }
    }

    /// Takes a sample and returns what happened since the one before; nothing on the first call.
    pub(super) fn sample(&mut self, nvml: &'nvml Nvml, device: &Device<'nvml>, g: &mut Gather) -> GpmValues {
        if !self.supported {
            return GpmValues::default();
        }
        let Some(sample) = g.get("nvmlGpmSampleGet", || device.gpm_sample()) else {
            // A sample from before the failure would give an average over an unknown time.
            self.last = None;
            return GpmValues::default();
        };
        let values = self.last.as_ref().and_then(|last| {
            let metrics: Vec<GpmMetricId> = GENERAL.into_iter().chain(link_metrics()).collect();
            g.get("nvmlGpmMetricsGet", || gpm_metrics_get(nvml, last, &sample, &metrics))
        });
        self.last = Some(sample);
        let values = values
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .map(|metric| (metric.metric_id.as_c(), metric.value));
        GpmValues { values: values.collect() }
    }
}

fn link_metrics() -> impl Iterator<Item = GpmMetricId> {
    (LINK_0_RECEIVE..LINK_0_RECEIVE + 2 * LINKS_MAX).filter_map(|id| GpmMetricId::try_from(id).ok())
}

/// Values between two samples; empty where there are none.
#[derive(Debug, Default)]
pub(super) struct GpmValues {
    values: BTreeMap<u32, f64>,
}

impl GpmValues {
    fn ratio(&self, id: GpmMetricId) -> Option<f64> {
        self.values.get(&id.as_c()).copied().and_then(ratio_from_percent_f64)
    }

    fn rate(&self, id: u32) -> Option<f64> {
        self.values.get(&id).copied().and_then(bytes_per_second_from_mib)
    }

    pub(super) fn pipes(&self) -> Pipes {
        Pipes {
            graphics: self.ratio(GpmMetricId::GraphicsUtil),
            sm_active: self.ratio(GpmMetricId::SmUtil),
            sm_occupancy: self.ratio(GpmMetricId::SmOccupancy),
            integer: self.ratio(GpmMetricId::IntegerUtil),
            tensor: self.ratio(GpmMetricId::AnyTensorUtil),
            fp16: self.ratio(GpmMetricId::Fp16Util),
            fp32: self.ratio(GpmMetricId::Fp32Util),
            fp64: self.ratio(GpmMetricId::Fp64Util),
            memory_bandwidth: self.ratio(GpmMetricId::DramBwUtil),
        }
    }

    /// (transmit, receive) in bytes per second; `None` where GPM gives neither.
    pub(super) fn pcie_rates(&self) -> Option<(Option<f64>, Option<f64>)> {
        self.pair(GpmMetricId::PcieTxPerSec.as_c(), GpmMetricId::PcieRxPerSec.as_c())
    }

    /// (transmit, receive) of one NVLink in bytes per second.
    pub(super) fn link_rates(&self, link: u32) -> Option<(Option<f64>, Option<f64>)> {
        let receive = LINK_0_RECEIVE.checked_add(link.checked_mul(2)?)?;
        self.pair(receive.checked_add(1)?, receive)
    }

    fn pair(&self, transmit: u32, receive: u32) -> Option<(Option<f64>, Option<f64>)> {
        let pair = (self.rate(transmit), self.rate(receive));
        (pair != (None, None)).then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_metrics_alternate_between_receive_and_transmit() {
        for (link, receive, transmit) in [
            (0, GpmMetricId::NvlinkL0RxPerSec, GpmMetricId::NvlinkL0TxPerSec),
            (9, GpmMetricId::NvlinkL9RxPerSec, GpmMetricId::NvlinkL9TxPerSec),
            (17, GpmMetricId::NvlinkL17RxPerSec, GpmMetricId::NvlinkL17TxPerSec),
        ] {
            let values =
                GpmValues { values: BTreeMap::from([(receive.as_c(), 1.0), (transmit.as_c(), 2.0)]) };
            assert_eq!(values.link_rates(link), Some((Some(2_097_152.0), Some(1_048_576.0))), "link {link}");
        }
        assert_eq!(link_metrics().count(), 36);
    }

    #[test]
    fn without_a_sample_everything_is_absent() {
        let values = GpmValues::default();
        assert_eq!(values.pipes(), Pipes::default());
        assert_eq!(values.pcie_rates(), None);
        assert_eq!(values.link_rates(0), None);
    }
}
