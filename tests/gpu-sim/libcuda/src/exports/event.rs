//! Events.

use crate::{
    abi::{CUevent, CUstream, Out},
    entry::exports,
    event,
};

exports! {
    fn cuEventCreate(out: *mut CUevent, flags: u32) =
        Out::new(out).and_then(|out| event::create(flags).map(|handle| out.set(handle)));

    fn cuEventDestroy_v2(event: CUevent) = event::destroy(event);

    fn cuEventRecord | cuEventRecord_ptsz[mode](event: CUevent, stream: CUstream) =
        event::record(event, stream, mode);

    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz[mode](event: CUevent, stream: CUstream, _flags: u32) =
        event::record(event, stream, mode);

    fn cuEventQuery(event: CUevent) = event::query(event);

    fn cuEventSynchronize(event: CUevent) = event::synchronize(event);

    fn cuEventElapsedTime(out: *mut f32, start: CUevent, end: CUevent) =
        Out::new(out).and_then(|out| event::elapsed_ms(start, end).map(|elapsed| out.set(elapsed)));

    /// CUDA 12.8: differs in the order of some errors only.
    fn cuEventElapsedTime_v2(out: *mut f32, start: CUevent, end: CUevent) =
        Out::new(out).and_then(|out| event::elapsed_ms(start, end).map(|elapsed| out.set(elapsed)));

    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz[mode](stream: CUstream, event: CUevent, _flags: u32) =
        event::wait(stream, event, mode);
}
