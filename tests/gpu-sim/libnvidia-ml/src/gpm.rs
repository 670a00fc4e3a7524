//! GPU performance monitoring: two samples, and metrics of the time between them. Hopper and later.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_uint};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_sim::machine::clock;
use gpu_sim::scenario::MAX_NVLINKS;
use nvml_wrapper_sys::bindings::{
    NVML_GPM_METRICS_GET_VERSION, NVML_GPM_SUPPORT_VERSION, nvmlGpmMetric_t, nvmlGpmMetric_t__bindgen_ty_1,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_MAX, nvmlGpmMetricsGet_t, nvmlGpmSupport_t,
};

use crate::abi::{Device, Handle, InOut, Out, code, supported};
use crate::library;

/// What a busy SM is assumed to do, in percent of its time. The simulation knows that a kernel runs, not what it computes.
mod assumed {
    pub(super) const OCCUPANCY: f64 = 0.5;
    pub(super) const INTEGER: f64 = 0.2;
    pub(super) const TENSOR: f64 = 0.3;
    pub(super) const FP64: f64 = 0.0;
    pub(super) const FP32: f64 = 0.2;
    pub(super) const FP16: f64 = 0.1;
    /// As in the daemon's memory utilisation.
    pub(super) const MEMORY_OF_KERNELS: f64 = 0.4;
    pub(super) const MEMORY_OF_COPIES: f64 = 0.25;
}

const MIB: f64 = 1_048_576.0;

/// `nvmlGpmSample_t`: an opaque number to callers.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleHandle(usize);

static SAMPLES: Mutex<Samples> = Mutex::new(Samples { next: 0x4750_4d00, taken: BTreeMap::new() });

struct Samples {
    next: usize,
    /// `None` for a sample that was allocated and not taken.
    taken: BTreeMap<usize, Option<Counters>>,
}

/// The counters of one GPU at one instant.
#[derive(Clone, Debug)]
struct Counters {
    gpu: usize,
    at_ns: u64,
    busy_ns: u64,
    copy_busy_ns: u64,
    pcie_tx_bytes: u64,
    pcie_rx_bytes: u64,
    nvlink_tx_bytes: [u64; MAX_NVLINKS],
    nvlink_rx_bytes: [u64; MAX_NVLINKS],
    links: usize,
}

export! {
    fn nvmlGpmQueryDeviceSupport(device: Handle, support: InOut<nvmlGpmSupport_t>) {
        let version = support.get()?.version;
        if version != NVML_GPM_SUPPORT_VERSION {
            return Err(code::ARGUMENT_VERSION_MISMATCH);
        }
        let is_supported = device.device()?.model().gpm;
        support.set(nvmlGpmSupport_t { version, isSupportedDevice: c_uint::from(is_supported) })
    }

    fn nvmlGpmQueryIfStreamingEnabled(device: Handle, state: Out<c_uint>) {
        supported(device.device()?.model().gpm)?;
        state.set(0)
    }

    fn nvmlGpmSampleAlloc(sample: Out<SampleHandle>) {
        library::machine()?;
        let mut samples = samples();
        let handle = samples.next;
        samples.next += 1;
        samples.taken.insert(handle, None);
        sample.set(SampleHandle(handle))
    }

    fn nvmlGpmSampleFree(sample: SampleHandle) {
        library::machine()?;
        samples().taken.remove(&sample.0).map(drop).ok_or(code::INVALID_ARGUMENT)
    }

    fn nvmlGpmSampleGet(device: Handle, sample: SampleHandle) {
        let device = device.device()?;
        supported(device.model().gpm)?;
        let mut samples = samples();
        let place = samples.taken.get_mut(&sample.0).ok_or(code::INVALID_ARGUMENT)?;
        *place = Some(Counters::of(&device));
        Ok(())
    }

    fn nvmlGpmMetricsGet(request: InOut<nvmlGpmMetricsGet_t>) {
        library::machine()?;
        let request = request.as_ptr();
        if request.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // The structure grew with its list of metrics: of an older caller's only the head and as many metrics as it asks for
        // may be touched.
        // SAFETY: the head is there in every version, and the caller has filled it in.
        let (version, count, before, after) = unsafe {
            (
                (&raw const (*request).version).read(),
                (&raw const (*request).numMetrics).read(),
                (&raw const (*request).sample1).read() as usize,
                (&raw const (*request).sample2).read() as usize,
            )
        };
        if version != NVML_GPM_METRICS_GET_VERSION {
            return Err(code::ARGUMENT_VERSION_MISMATCH);
        }
        if count > nvmlGpmMetricId_t_NVML_GPM_METRIC_MAX {
            return Err(code::INVALID_ARGUMENT);
        }
        let between = {
            let samples = samples();
            let taken = |handle: usize| samples.taken.get(&handle).cloned().flatten().ok_or(code::INVALID_ARGUMENT);
            Between::new(&taken(before)?, &taken(after)?)?
        };
        for position in 0..count as usize {
            // SAFETY: the caller has room for `count` metrics, which is not more than the array has.
            let metric = unsafe { (&raw mut (*request).metrics).cast::<nvmlGpmMetric_t>().add(position) };
            // SAFETY: the caller has filled the metric's number in.
            let id = unsafe { (&raw const (*metric).metricId).read() };
            let (result, value) = match between.metric(id) {
                Some(value) => (code::SUCCESS, value),
                None => (code::NOT_SUPPORTED, 0.0),
            };
            // SAFETY: as above; the metric is written whole.
            unsafe { metric.write(nvmlGpmMetric_t { metricId: id, nvmlReturn: result, value, metricInfo: info(id) }) };
        }
        Ok(())
    }
}

/// Called when the library is shut down.
pub(crate) fn forget_all() {
    samples().taken.clear();
}

fn samples() -> MutexGuard<'static, Samples> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counters {
    fn of(device: &Device) -> Self {
        let state = device.state();
        Self {
            gpu: device.index,
            at_ns: clock::monotonic_ns(),
            busy_ns: state.busy_ns.load(Relaxed),
            copy_busy_ns: state.copy_busy_ns.load(Relaxed),
            pcie_tx_bytes: state.pcie_tx_bytes.load(Relaxed),
            pcie_rx_bytes: state.pcie_rx_bytes.load(Relaxed),
            nvlink_tx_bytes: std::array::from_fn(|link| state.nvlink_tx_bytes[link].load(Relaxed)),
            nvlink_rx_bytes: std::array::from_fn(|link| state.nvlink_rx_bytes[link].load(Relaxed)),
            links: device.gpu().nvlink_peers.len(),
        }
    }
}

/// What happened between two samples.
struct Between {
    /// Shares of the time, 0 to 1.
    kernels: f64,
    copies: f64,
    pcie_tx: f64,
    pcie_rx: f64,
    /// MiB/s of each link.
    link_tx: Vec<f64>,
    link_rx: Vec<f64>,
}

impl Between {
    fn new(before: &Counters, after: &Counters) -> Result<Self, c_uint> {
        if before.gpu != after.gpu || after.at_ns <= before.at_ns {
            return Err(code::INVALID_ARGUMENT);
        }
        let elapsed_ns = difference(before.at_ns, after.at_ns);
        let share = |before: u64, after: u64| (difference(before, after) / elapsed_ns).min(1.0);
        let rate = |before: u64, after: u64| difference(before, after) * 1e9 / elapsed_ns / MIB;
        let rates = |before: &[u64], after: &[u64]| {
            before.iter().zip(after).take(after.len()).map(|(before, after)| rate(*before, *after)).collect()
        };
        let links = after.links;
        Ok(Self {
            kernels: share(before.busy_ns, after.busy_ns),
            copies: share(before.copy_busy_ns, after.copy_busy_ns),
            pcie_tx: rate(before.pcie_tx_bytes, after.pcie_tx_bytes),
            pcie_rx: rate(before.pcie_rx_bytes, after.pcie_rx_bytes),
            link_tx: rates(&before.nvlink_tx_bytes[..links], &after.nvlink_tx_bytes[..links]),
            link_rx: rates(&before.nvlink_rx_bytes[..links], &after.nvlink_rx_bytes[..links]),
        })
    }

    /// A metric by its `nvmlGpmMetricId_t`; `None` for what the card does not have.
    fn metric(&self, id: c_uint) -> Option<f64> {
        let percent = |share: f64| Some(100.0 * share.min(1.0));
        match id {
            1 | 2 => percent(self.kernels),
            3 => percent(self.kernels * assumed::OCCUPANCY),
            4 => percent(self.kernels * assumed::INTEGER),
            5 | 7 => percent(self.kernels * assumed::TENSOR),
            6 | 9 => percent(0.0),
            10 => {
                percent(self.kernels * assumed::MEMORY_OF_KERNELS + self.copies * assumed::MEMORY_OF_COPIES)
            }
            11 => percent(self.kernels * assumed::FP64),
            12 => percent(self.kernels * assumed::FP32),
            13 => percent(self.kernels * assumed::FP16),
            20 => Some(self.pcie_tx),
            21 => Some(self.pcie_rx),
            60 => Some(self.link_rx.iter().sum()),
            61 => Some(self.link_tx.iter().sum()),
            62..=97 => {
                let (link, is_transmit) = ((id - 62) / 2, (id - 62) % 2 == 1);
                let rates = if is_transmit { &self.link_tx } else { &self.link_rx };
                rates.get(link as usize).copied()
            }
            _ => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two differences: 53 bits are more than enough")]
fn difference(before: u64, after: u64) -> f64 {
    after.saturating_sub(before) as f64
}

fn info(id: c_uint) -> nvmlGpmMetric_t__bindgen_ty_1 {
    let (name, unit) = match id {
        1 => (c"GRAPHICS_UTIL", c"%"),
        2 => (c"SM_UTIL", c"%"),
        3 => (c"SM_OCCUPANCY", c"%"),
        4 => (c"INTEGER_UTIL", c"%"),
        5 => (c"ANY_TENSOR_UTIL", c"%"),
        10 => (c"DRAM_BW_UTIL", c"%"),
        11 => (c"FP64_UTIL", c"%"),
        12 => (c"FP32_UTIL", c"%"),
        13 => (c"FP16_UTIL", c"%"),
        20 => (c"PCIE_TX_PER_SEC", c"MiB/s"),
        21 => (c"PCIE_RX_PER_SEC", c"MiB/s"),
        60..=97 => (c"NVLINK_PER_SEC", c"MiB/s"),
        _ => (c"", c""),
    };
    let pointer = |text: &'static CStr| text.as_ptr().cast_mut().cast::<c_char>();
    nvmlGpmMetric_t__bindgen_ty_1 { shortName: pointer(name), longName: pointer(name), unit: pointer(unit) }
}
