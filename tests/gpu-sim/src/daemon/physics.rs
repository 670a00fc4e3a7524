//! Power, energy, temperature and clocks that follow from how busy a GPU is.

use std::sync::atomic::Ordering::Relaxed;

use crate::{machine::GpuState, scenario::Model};

/// Time in which two thirds of the way to a new steady temperature are covered.
const THERMAL_TIME_CONSTANT_S: f64 = 20.0;

/// The slow state of one GPU.
#[derive(Debug)]
pub(super) struct Physics {
    model: Model,
    temperature_celsius: f64,
}

impl Physics {
    pub(super) fn new(model: &Model) -> Self {
        Self { model: model.clone(), temperature_celsius: f64::from(model.temperature.idle_celsius) }
    }

    /// Lets `elapsed_ns` pass in which the SMs were busy for the fraction `load`, and stores the results.
    pub(super) fn step(&mut self, gpu: &GpuState, load: f64, elapsed_ns: u64) {
        let Model { power, temperature, clocks, .. } = &self.model;
        let between = |low: u32, high: u32| f64::from(low) + (f64::from(high) - f64::from(low)) * load;
        let limit_mw = f64::from(gpu.power_limit_mw.load(Relaxed));
        let power_mw = between(power.idle_mw, power.busy_mw).min(limit_mw);
        let seconds = elapsed_ns as f64 / 1e9;
        let target_celsius = between(temperature.idle_celsius, temperature.busy_celsius);
        let step = 1.0 - (-seconds / THERMAL_TIME_CONSTANT_S).exp();
        self.temperature_celsius += (target_celsius - self.temperature_celsius) * step;
        gpu.power_mw.store(power_mw as u32, Relaxed);
        gpu.energy_uj.fetch_add((power_mw * seconds * 1000.0) as u64, Relaxed);
        gpu.temperature_millicelsius.store((self.temperature_celsius * 1000.0) as u32, Relaxed);
        let busy = load > 0.0;
        gpu.sm_clock_mhz.store(if busy { clocks.max_sm_mhz } else { clocks.idle_sm_mhz }, Relaxed);
        gpu.memory_clock_mhz
            .store(if busy { clocks.max_memory_mhz } else { clocks.idle_memory_mhz }, Relaxed);
    }
}
