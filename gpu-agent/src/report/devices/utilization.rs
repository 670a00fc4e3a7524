//! What a GPU is busy with.

use gpu_api::metric::attribute::{GPU_PIPE, HW_GPU_TASK};
use gpu_api::metric::device;
use gpu_api::metric::value::{GpuTask, Pipe};

use super::points::Points;
use crate::device::reading::{Pipes, Utilization};

pub(super) fn add(points: &mut Points<'_>, utilization: &Utilization, pipes: &Pipes) {
    let Utilization { gpu, memory, encoder, decoder } = *utilization;
    for (task, ratio) in [(GpuTask::General, gpu), (GpuTask::Encoder, encoder), (GpuTask::Decoder, decoder)] {
        points.double(&device::UTILIZATION, [(&HW_GPU_TASK, task.as_str().into())], ratio);
    }
    points.double(&device::MEMORY_ACCESS_UTILIZATION, [], memory);

    let Pipes { graphics, sm_active, sm_occupancy, integer, tensor, fp16, fp32, fp64, memory_bandwidth } =
        *pipes;
    points.double(&device::ENGINE_UTILIZATION, [], graphics);
    points.double(&device::SM_UTILIZATION, [], sm_active);
    points.double(&device::SM_OCCUPANCY, [], sm_occupancy);
    points.double(&device::MEMORY_BANDWIDTH_UTILIZATION, [], memory_bandwidth);
    for (pipe, ratio) in [
        (Pipe::Fp16, fp16),
        (Pipe::Fp32, fp32),
        (Pipe::Fp64, fp64),
        (Pipe::Integer, integer),
        (Pipe::Tensor, tensor),
    ] {
        points.double(&device::PIPE_UTILIZATION, [(&GPU_PIPE, pipe.as_str().into())], ratio);
    }
}
