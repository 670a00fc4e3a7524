//! The contract between agent, scheduler and users: metric names, attributes, quantities, GPU model.
#![forbid(unsafe_code)]

pub mod cuda;
pub mod metric;
