//! Kernel launches.

use std::ffi::c_void;

use crate::{
    abi::{CUfunction, CUstream, LaunchConfig, LaunchParams, read, read_array},
    entry::exports,
    launch,
};

exports! {
    fn cuLaunchKernel | cuLaunchKernel_ptsz[mode](

        function: CUfunction,
        grid_x: u32, grid_y: u32, grid_z: u32,
        block_x: u32, block_y: u32, block_z: u32,
        _shared_bytes: u32,
        stream: CUstream,
        _parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) = launch::kernel(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream, mode);

    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz[mode](

        config: *const LaunchConfig,
        function: CUfunction,
        _parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) = read(config).and_then(|config| launch::kernel(function, config.grid, config.block, config.stream, mode));

    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz[mode](

        function: CUfunction,
        grid_x: u32, grid_y: u32, grid_z: u32,
        block_x: u32, block_y: u32, block_z: u32,
        _shared_bytes: u32,
        stream: CUstream,
        _parameters: *mut *mut c_void,
    ) = launch::kernel(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream, mode);

    /// Deprecated since CUDA 11.3.
    fn cuLaunchCooperativeKernelMultiDevice(list: *const LaunchParams, count: u32, _flags: u32) =
        read_array(list, count as usize).and_then(|launches| launch::cooperative_multi_device(&launches));
}
