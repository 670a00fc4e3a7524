//! Node agent: sees every GPU call in the kernel and says which tenant did what on which GPU.

pub mod chain;
pub mod check;
pub mod collect;
pub mod config;
pub mod device;
pub mod export;
pub mod http;
pub mod identity;
pub mod kernel;
pub mod ledger;
pub mod probe;
pub mod report;
pub mod run;
pub mod tenant;
