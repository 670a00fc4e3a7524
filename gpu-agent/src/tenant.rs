//! Who a GPU call belongs to, from what the kernel says alone.

pub mod glob;
pub mod rule;
