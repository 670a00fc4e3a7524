//! libcuda.so.1 with the ABI of the CUDA driver API, on the simulated machine.
