//! The exported entry points, as cuda.h (CUDA 13.0) declares them, and those of earlier versions that it still has.
//!
//! A name with `|` stands for two entry points: the one for the legacy default stream and the one (`_ptsz` for calls that
//! take a stream, `_ptds` for others) for the calling thread's own default stream.

use crate::entry::Export;

mod array;
mod context;
mod copy;
mod copy_array;
mod device;
mod event;
mod export_table;
mod graph;
mod host;
mod ipc;
mod launch;
mod legacy;
mod memory;
mod memset;
mod module;
mod pool;
mod proc_address;
mod stream;
mod virtual_memory;

/// Every entry point.
pub(crate) fn all() -> impl Iterator<Item = &'static Export> {
    [
        array::TABLE,
        context::TABLE,
        copy::TABLE,
        copy_array::TABLE,
        device::TABLE,
        event::TABLE,
        export_table::TABLE,
        graph::TABLE,
        host::TABLE,
        ipc::TABLE,
        launch::TABLE,
        legacy::TABLE,
        memory::TABLE,
        memset::TABLE,
        module::TABLE,
        pool::TABLE,
        proc_address::TABLE,
        stream::TABLE,
        virtual_memory::TABLE,
    ]
    .into_iter()
    .flatten()
}
