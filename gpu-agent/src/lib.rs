//! Node agent: sees every GPU call in the kernel and says which tenant did what on which GPU.

pub mod kernel;
pub mod probe;
pub mod export;
pub mod http;
pub mod device;
pub mod config;
pub mod identity;
pub mod report;
pub mod tenant;
