//! Graphs.

use std::{ptr::null, sync::PoisonError};

use crate::{
    truth::CallClass::{GraphLaunch, Module},
    workload::{WorkloadError, session::Session},
};

type Result<T = ()> = std::result::Result<T, WorkloadError>;

/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
const CAPTURE_THREAD_LOCAL: u32 = 1;

impl Session<'_> {
    /// Builds a graph of `nodes` kernels in a row, ready to be launched.
    pub(in crate::workload) fn build_graph(&self, nodes: usize) -> Result<u64> {
        let api = &self.process.api;
        let mut graph = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (api.graph_create)(&raw mut graph, 0) };
        self.check(Module, "cuGraphCreate", code)?;
        // CUDA_KERNEL_NODE_PARAMS_v2: function, grid and block of 1, no shared memory, no parameters, no context.
        let parameters = [self.function, 1 | 1 << 32, 1 | 1 << 32, 1 | 1 << 32, 0, 0, 0, 0, 0];
        let mut previous = None;
        for _ in 0..nodes {
            let dependencies = previous.as_ref().map_or(null(), |node: &u64| &raw const *node);
            let mut node = 0;
            // SAFETY: the dependency and the parameters outlive the call, which stores to the variable.
            let code = unsafe {
                (api.graph_add_kernel_node)(
                    &raw mut node,
                    graph,
                    dependencies,
                    usize::from(previous.is_some()),
                    &raw const parameters,
                )
            };
            self.check(Module, "cuGraphAddKernelNode", code)?;
            previous = Some(node);
        }
        self.instantiate(graph)
    }

    /// Captures `launches` launches, which count as such, as a graph ready to be launched.
    pub(in crate::workload) fn capture_graph(&self, launches: usize, stream: u64) -> Result<u64> {
        let api = &self.process.api;
        let guard = self.process.capturing.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.begin_capture)(stream, CAPTURE_THREAD_LOCAL) };
        self.check(Module, "cuStreamBeginCapture", code)?;
        for _ in 0..launches {
            self.launch(stream)?;
        }
        let mut graph = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (api.end_capture)(stream, &raw mut graph) };
        self.check(Module, "cuStreamEndCapture", code)?;
        drop(guard);
        self.instantiate(graph)
    }

    /// Launches a graph (which may be an invalid handle).
    pub(in crate::workload) fn launch_graph(&self, exec: u64, stream: u64) -> Result {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.graph_launch)(exec, stream) };
        self.check(GraphLaunch, "cuGraphLaunch", code)?;
        self.process.log.count(self.gpu, |truth| truth.graph_launches += 1);
        Ok(())
    }

    pub(in crate::workload) fn upload_graph(&self, exec: u64, stream: u64) -> Result {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.graph_upload)(exec, stream) };
        self.check(Module, "cuGraphUpload", code)
    }

    pub(in crate::workload) fn destroy_graph(&self, exec: u64) -> Result {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.graph_exec_destroy)(exec) };
        self.check(Module, "cuGraphExecDestroy", code)
    }

    fn instantiate(&self, graph: u64) -> Result<u64> {
        let api = &self.process.api;
        let mut exec = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (api.graph_instantiate)(&raw mut exec, graph, 0) };
        self.check(Module, "cuGraphInstantiate", code)?;
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.graph_destroy)(graph) };
        self.check(Module, "cuGraphDestroy", code)?;
        Ok(exec)
    }
}
