//! Streams and capture.

use crate::{
    abi::{CUcontext, CUgraph, CUstream, Out},
    capture,
    entry::exports,
    stream,
};

exports! {
    fn cuStreamCreate(out: *mut CUstream, flags: u32) =
        Out::new(out).and_then(|out| stream::create(flags).map(|handle| out.set(handle)));

    fn cuStreamCreateWithPriority(out: *mut CUstream, flags: u32, _priority: i32) =
        Out::new(out).and_then(|out| stream::create(flags).map(|handle| out.set(handle)));

    fn cuStreamDestroy_v2(stream: CUstream) = stream::destroy(stream);

    fn cuStreamSynchronize | cuStreamSynchronize_ptsz[mode](stream: CUstream) = stream::synchronize(stream, mode);

    fn cuStreamQuery | cuStreamQuery_ptsz[mode](stream: CUstream) = stream::query(stream, mode);

    fn cuStreamGetCtx | cuStreamGetCtx_ptsz[mode](stream: CUstream, out: *mut CUcontext) =
        Out::new(out)
            .and_then(|out| stream::target(stream, mode).map(|target| out.set(target.context.handle)));

    fn cuStreamGetFlags | cuStreamGetFlags_ptsz[mode](stream: CUstream, out: *mut u32) =
        Out::new(out).and_then(|out| {
            stream::target(stream, mode).map(|target| out.set(u32::from(target.stream.non_blocking)))
        });

    fn cuStreamGetPriority | cuStreamGetPriority_ptsz[mode](stream: CUstream, out: *mut i32) =
        Out::new(out).and_then(|out| stream::target(stream, mode).map(|_| out.set(0)));

    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz[mode](stream: CUstream, _capture_mode: u32) =
        capture::begin(stream, mode);

    fn cuStreamEndCapture | cuStreamEndCapture_ptsz[mode](stream: CUstream, out: *mut CUgraph) =
        Out::new(out).and_then(|out| capture::end(stream, mode).map(|graph| out.set(graph)));

    fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz[mode](stream: CUstream, out: *mut u32) =
        Out::new(out).and_then(|out| capture::status(stream, mode).map(|status| out.set(status)));

    fn cuThreadExchangeStreamCaptureMode(mode_inout: *mut u32) =
        Out::new(mode_inout).map(|out| out.set(0));
}
