//! libnvidia-ml.so.1 with NVML's ABI, on the simulated machine.
