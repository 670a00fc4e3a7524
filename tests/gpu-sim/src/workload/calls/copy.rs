//! Copies and memsets.

use std::ptr::{null, null_mut};

use crate::{
    truth::{CallClass, CopyKind},
    workload::{WorkloadError, session::Session},
};

type Result<T = ()> = std::result::Result<T, WorkloadError>;

/// CU_MEMORYTYPE_HOST and _DEVICE.
const HOST: u64 = 1;
const DEVICE: u64 = 2;

/// Directions of linear copies whose call names the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workload) enum Direction {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
}

/// The buffers of a copy. The host's is the workload's own memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::workload) struct CopyEnds {
    pub(in crate::workload) host: u64,
    pub(in crate::workload) device: u64,
    pub(in crate::workload) other_device: u64,
}

impl Direction {
    fn ends(self, ends: CopyEnds) -> (u64, u64, CopyKind) {
        match self {
            Self::HostToDevice => (ends.device, ends.host, CopyKind::HostToDevice),
            Self::DeviceToHost => (ends.host, ends.device, CopyKind::DeviceToHost),
            Self::DeviceToDevice => (ends.other_device, ends.device, CopyKind::DeviceToDevice),
        }
    }
}

impl Session<'_> {
    pub(in crate::workload) fn copy(&self, direction: Direction, ends: CopyEnds, bytes: u64) -> Result {
        let api = &self.process.api;
        let (dst, src, kind) = direction.ends(ends);
        let (call, function) = match direction {
            Direction::HostToDevice => ("cuMemcpyHtoD", api.memcpy_htod),
            Direction::DeviceToHost => ("cuMemcpyDtoH", api.memcpy_dtoh),
            Direction::DeviceToDevice => ("cuMemcpyDtoD", api.memcpy_dtod),
        };
        // SAFETY: the host buffer holds at least `bytes`; device addresses are checked by the driver.
        let code = unsafe { function(dst, src, bytes as usize) };
        self.copied(call, code, kind, bytes)
    }

    pub(in crate::workload) fn copy_async(
        &self,
        direction: Direction,
        ends: CopyEnds,
        bytes: u64,
        stream: u64,
    ) -> Result {
        let api = &self.process.api;
        let (dst, src, kind) = direction.ends(ends);
        let (call, function) = match direction {
            Direction::HostToDevice => ("cuMemcpyHtoDAsync", api.memcpy_htod_async),
            Direction::DeviceToHost => ("cuMemcpyDtoHAsync", api.memcpy_dtoh_async),
            Direction::DeviceToDevice => ("cuMemcpyDtoDAsync", api.memcpy_dtod_async),
        };
        // SAFETY: the host buffer holds at least `bytes` and lives until the stream is synchronised.
        let code = unsafe { function(dst, src, bytes as usize, stream) };
        self.copied(call, code, kind, bytes)
    }

    /// cuMemcpy, whose direction follows from the addresses.
    pub(in crate::workload) fn copy_unified(&self, dst: u64, src: u64, bytes: u64) -> Result {
        // SAFETY: host addresses lead to buffers of at least `bytes`.
        let code = unsafe { (self.process.api.memcpy)(dst, src, bytes as usize) };
        self.copied("cuMemcpy", code, CopyKind::Unified, bytes)
    }

    pub(in crate::workload) fn copy_unified_async(
        &self,
        dst: u64,
        src: u64,
        bytes: u64,
        stream: u64,
    ) -> Result {
        // SAFETY: host addresses lead to buffers of at least `bytes` that live until the stream is synchronised.
        let code = unsafe { (self.process.api.memcpy_async)(dst, src, bytes as usize, stream) };
        self.copied("cuMemcpyAsync", code, CopyKind::Unified, bytes)
    }

    /// Between this session's context and another one's.
    pub(in crate::workload) fn copy_peer(&self, dst: u64, dst_context: u64, src: u64, bytes: u64) -> Result {
        // SAFETY: the call takes no pointers that it follows.
        let code =
            unsafe { (self.process.api.memcpy_peer)(dst, dst_context, src, self.context, bytes as usize) };
        self.copied("cuMemcpyPeer", code, CopyKind::Peer, bytes)
    }

    pub(in crate::workload) fn copy_peer_async(
        &self,
        dst: u64,
        dst_context: u64,
        src: u64,
        bytes: u64,
        stream: u64,
    ) -> Result {
        // SAFETY: the call takes no pointers that it follows.
        let code = unsafe {
            (self.process.api.memcpy_peer_async)(dst, dst_context, src, self.context, bytes as usize, stream)
        };
        self.copied("cuMemcpyPeerAsync", code, CopyKind::Peer, bytes)
    }

    /// cuMemcpy2D (waiting or queued in a stream) or cuMemcpy2DUnaligned.
    pub(in crate::workload) fn copy_2d(
        &self,
        direction: Direction,
        ends: CopyEnds,
        (width, height): (u64, u64),
        how: Shaped,
    ) -> Result {
        let (dst, src, kind) = direction.ends(ends);
        let (dst_type, dst_host, dst_device) = typed(dst, direction == Direction::DeviceToHost);
        let (src_type, src_host, src_device) = typed(src, direction == Direction::HostToDevice);
        let copy = [
            0, 0, src_type, src_host, src_device, 0, width, 0, 0, dst_type, dst_host, dst_device, 0, width,
            width, height,
        ];
        let api = &self.process.api;
        let copy = &raw const copy;
        // SAFETY: the descriptor outlives the call; host buffers hold width x height bytes until a synchronisation.
        let (call, code) = unsafe {
            match how {
                Shaped::Waiting => ("cuMemcpy2D", (api.memcpy_2d)(copy)),
                Shaped::Unaligned => ("cuMemcpy2DUnaligned", (api.memcpy_2d_unaligned)(copy)),
                Shaped::Queued(stream) => ("cuMemcpy2DAsync", (api.memcpy_2d_async)(copy, stream)),
            }
        };
        self.copied(call, code, kind, width * height)
    }

    /// cuMemcpy3D, waiting or queued in a stream.
    pub(in crate::workload) fn copy_3d(
        &self,
        direction: Direction,
        ends: CopyEnds,
        (width, height, depth): (u64, u64, u64),
        stream: Option<u64>,
    ) -> Result {
        let (dst, src, kind) = direction.ends(ends);
        let (dst_type, dst_host, dst_device) = typed(dst, direction == Direction::DeviceToHost);
        let (src_type, src_host, src_device) = typed(src, direction == Direction::HostToDevice);
        let source = [0, 0, 0, 0, src_type, src_host, src_device, 0, 0, width, height];
        let destination = [0, 0, 0, 0, dst_type, dst_host, dst_device, 0, 0, width, height];
        let copy = cuboid(source, destination, [width, height, depth]);
        let api = &self.process.api;
        // SAFETY: the descriptor outlives the call; host buffers hold all the bytes until a synchronisation.
        let (call, code) = unsafe {
            match stream {
                None => ("cuMemcpy3D", (api.memcpy_3d)(&raw const copy)),
                Some(stream) => ("cuMemcpy3DAsync", (api.memcpy_3d_async)(&raw const copy, stream)),
            }
        };
        self.copied(call, code, kind, width * height * depth)
    }

    /// cuMemcpy3DPeer.
    pub(in crate::workload) fn copy_3d_peer(
        &self,
        dst: u64,
        dst_context: u64,
        src: u64,
        (width, height, depth): (u64, u64, u64),
    ) -> Result {
        let source = [0, 0, 0, 0, DEVICE, 0, src, 0, self.context, width, height];
        let destination = [0, 0, 0, 0, DEVICE, 0, dst, 0, dst_context, width, height];
        let copy = cuboid(source, destination, [width, height, depth]);
        // SAFETY: the descriptor outlives the call.
        let code = unsafe { (self.process.api.memcpy_3d_peer)(&raw const copy) };
        self.copied("cuMemcpy3DPeer", code, CopyKind::Peer, width * height * depth)
    }

    /// Several copies from one buffer to another in one call, by either variant of it.
    pub(in crate::workload) fn copy_batch(
        &self,
        dst: u64,
        src: u64,
        sizes: &[usize],
        stream: u64,
        newer: bool,
    ) -> Result {
        let (dsts, srcs) = (vec![dst; sizes.len()], vec![src; sizes.len()]);
        let (api, count) = (&self.process.api, sizes.len());
        // SAFETY: the arrays have `count` elements and outlive the call; there are no attributes.
        let code = unsafe {
            if newer {
                (api.memcpy_batch_async_v2)(
                    dsts.as_ptr(),
                    srcs.as_ptr(),
                    sizes.as_ptr(),
                    count,
                    null(),
                    null(),
                    0,
                    stream,
                )
            } else {
                (api.memcpy_batch_async)(
                    dsts.as_ptr(),
                    srcs.as_ptr(),
                    sizes.as_ptr(),
                    count,
                    null(),
                    null(),
                    0,
                    null_mut(),
                    stream,
                )
            }
        };
        let bytes = sizes.iter().map(|size| *size as u64).sum();
        self.copied("cuMemcpyBatchAsync", code, CopyKind::Unified, bytes)
    }

    /// To an array and back, by each call that names arrays.
    pub(in crate::workload) fn copy_array(
        &self,
        array: u64,
        ends: CopyEnds,
        bytes: u64,
        stream: u64,
    ) -> Result {
        let api = &self.process.api;
        let CopyEnds { host, device, .. } = ends;
        let count = bytes as usize;
        // SAFETY: host buffers hold at least `bytes` and live until the stream is synchronised; arrays and device
        // addresses are checked by the driver.
        let calls: [(&'static str, u32); 7] = unsafe {
            [
                ("cuMemcpyHtoA", (api.memcpy_htoa)(array, 0, host, count)),
                ("cuMemcpyAtoH", (api.memcpy_atoh)(host, array, 0, count)),
                ("cuMemcpyDtoA", (api.memcpy_dtoa)(array, 0, device, count)),
                ("cuMemcpyAtoD", (api.memcpy_atod)(device, array, 0, count)),
                ("cuMemcpyAtoA", (api.memcpy_atoa)(array, 0, array, 0, count)),
                ("cuMemcpyHtoAAsync", (api.memcpy_htoa_async)(array, 0, host, count, stream)),
                ("cuMemcpyAtoHAsync", (api.memcpy_atoh_async)(host, array, 0, count, stream)),
            ]
        };
        calls.into_iter().try_for_each(|(call, code)| self.copied(call, code, CopyKind::Array, bytes))
    }

    /// One memset of `bytes` (a multiple of 4) by the call with this number, from 0 to 6.
    pub(in crate::workload) fn memset(&self, dst: u64, bytes: u64, which: u64, stream: u64) -> Result {
        let api = &self.process.api;
        let count = bytes as usize;
        // SAFETY: device addresses are checked by the driver.
        let (call, code) = unsafe {
            match which {
                0 => ("cuMemsetD8", (api.memset_d8)(dst, 1, count)),
                1 => ("cuMemsetD16", (api.memset_d16)(dst, 1, count / 2)),
                2 => ("cuMemsetD32", (api.memset_d32)(dst, 1, count / 4)),
                3 => ("cuMemsetD2D32", (api.memset_d2d32)(dst, 4, 1, 1, count / 4)),
                4 => ("cuMemsetD8Async", (api.memset_d8_async)(dst, 1, count, stream)),
                5 => ("cuMemsetD32Async", (api.memset_d32_async)(dst, 1, count / 4, stream)),
                _ => ("cuMemsetD2D8Async", (api.memset_d2d8_async)(dst, 4, 1, 4, count / 4, stream)),
            }
        };
        self.check(CallClass::Memset, call, code)?;
        self.process.log.count(self.gpu, |truth| {
            truth.memset.calls += 1;
            truth.memset.bytes += bytes;
        });
        Ok(())
    }

    fn copied(&self, call: &'static str, code: u32, kind: CopyKind, bytes: u64) -> Result {
        self.check(CallClass::Copy, call, code)?;
        self.process.log.count(self.gpu, |truth| truth.copied(kind, bytes));
        Ok(())
    }
}

/// Variants of a copy of a rectangle.
#[derive(Clone, Copy, Debug)]
pub(in crate::workload) enum Shaped {
    Waiting,
    Unaligned,
    Queued(u64),
}

/// Memory type, host address and device address of one end of a copy.
fn typed(address: u64, on_host: bool) -> (u64, u64, u64) {
    if on_host { (HOST, address, 0) } else { (DEVICE, 0, address) }
}

/// `CUDA_MEMCPY3D` or `CUDA_MEMCPY3D_PEER`.
fn cuboid(source: [u64; 11], destination: [u64; 11], extent: [u64; 3]) -> [u64; 25] {
    let mut copy = [0; 25];
    copy[..11].copy_from_slice(&source);
    copy[11..22].copy_from_slice(&destination);
    copy[22..].copy_from_slice(&extent);
    copy
}
