//! Which GPU a call was made on, and which process made it.
//!
//! The kernel sees a CUDA device ordinal, which means nothing outside its process. [`visible_devices`] works out
//! which GPU the ordinal stands for by the driver's rules, [`assign`] accepts that only as far as NVML's process
//! lists agree, and [`process`] reads what both need from `/proc`.

pub mod assign;
pub mod process;
pub mod visible_devices;

pub use self::{
    assign::{Assignment, Evidence, NvmlSample, UnknownGpu, assign},
    visible_devices::{Environment, Gpu, MigDevice, NotKnowable, visible_devices},
};
