//! Graphs: built node by node or by capture, launched by one call.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use gpu_sim::machine::{channel::WorkKind, clock};

use crate::{
    context,
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
    launch,
    stream::{Stream, Target, target},
};

/// CPU time of the launch of one graph.
const GRAPH_LAUNCH_NS: u64 = 10_000;

/// What one node does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeKind {
    Kernel { duration_ns: u64 },
    Copy { kind: WorkKind, duration_ns: u64, bytes: u64 },
    Empty,
}

/// A graph. Nodes run one after the other in the order in which they were added, which respects every dependency.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<(u64, NodeKind)>,
    allocations: Vec<GraphAllocation>,
}

/// Memory of an allocation node. It is taken when the node is added and given back with the graph.
#[derive(Clone, Copy, Debug)]
struct GraphAllocation {
    gpu: usize,
    address: u64,
    bytes: u64,
}

/// A graph ready to be launched: consecutive kernels are one piece of work.
#[derive(Debug)]
pub(crate) struct GraphExec {
    work: Vec<NodeKind>,
    /// Keeps the memory of allocation nodes.
    _graph: Arc<Mutex<Graph>>,
}

static NEXT_NODE: AtomicU64 = AtomicU64::new(0x5600_0000_0100);

/// cuGraphCreate.
pub(crate) fn create() -> Result<u64> {
    Ok(driver()?.graphs.insert(Mutex::default()))
}

/// cuGraphDestroy.
pub(crate) fn destroy(handle: u64) -> Result {
    driver()?.graphs.remove(handle).map_err(|_| CudaError::InvalidValue)?;
    Ok(())
}

/// cuGraphAdd…Node: the handle of the node.
pub(crate) fn add_node(graph: u64, dependencies: &[u64], kind: NodeKind) -> Result<u64> {
    let graph = find(graph)?;
    let mut graph = lock(&graph);
    if dependencies.iter().any(|dependency| !graph.nodes.iter().any(|(node, _)| node == dependency)) {
        return Err(CudaError::InvalidValue);
    }
    Ok(graph.add(kind))
}

/// cuGraphAddKernelNode.
pub(crate) fn add_kernel_node(graph: u64, dependencies: &[u64], function: u64) -> Result<u64> {
    let duration_ns = driver()?.functions.get(function)?.duration.next_ns();
    add_node(graph, dependencies, NodeKind::Kernel { duration_ns })
}

/// cuGraphAddMemAllocNode: the handle of the node, and the address.
pub(crate) fn add_allocation_node(
    graph: u64,
    dependencies: &[u64],
    ordinal: i32,
    bytes: usize,
) -> Result<(u64, u64)> {
    let driver = driver()?;
    let gpu = driver.device(ordinal)?.gpu;
    let node = add_node(graph, dependencies, NodeKind::Empty)?;
    let address = driver.memory().take(driver, gpu, bytes as u64)?;
    lock(find(graph)?.as_ref()).allocations.push(GraphAllocation { gpu, address, bytes: bytes as u64 });
    Ok((node, address))
}

/// cuGraphAddMemFreeNode.
pub(crate) fn add_free_node(graph: u64, dependencies: &[u64], address: u64) -> Result<u64> {
    if !lock(find(graph)?.as_ref()).allocations.iter().any(|allocation| allocation.address == address) {
        return Err(CudaError::InvalidValue);
    }
    add_node(graph, dependencies, NodeKind::Empty)
}

/// cuGraphGetNodes: the handles of all nodes.
pub(crate) fn nodes(graph: u64) -> Result<Vec<u64>> {
    Ok(lock(find(graph)?.as_ref()).nodes.iter().map(|(node, _)| *node).collect())
}

/// cuGraphInstantiate.
pub(crate) fn instantiate(graph: u64) -> Result<u64> {
    let graph = find(graph)?;
    let mut work: Vec<NodeKind> = Vec::new();
    for (_, node) in &lock(&graph).nodes {
        match (work.last_mut(), node) {
            (_, NodeKind::Empty) => {}
            (Some(NodeKind::Kernel { duration_ns: total }), NodeKind::Kernel { duration_ns }) => {
                *total = total.saturating_add(*duration_ns);
            }
            _ => work.push(*node),
        }
    }
    Ok(driver()?.graph_execs.insert(GraphExec { work, _graph: graph }))
}

/// cuGraphExecDestroy.
pub(crate) fn destroy_exec(handle: u64) -> Result {
    driver()?.graph_execs.remove(handle).map_err(|_| CudaError::InvalidValue)?;
    Ok(())
}

/// cuGraphUpload: there is nothing to upload, but the handles must be valid.
pub(crate) fn upload(exec: u64, stream: u64, mode: DefaultStream) -> Result {
    driver()?.graph_execs.get(exec).map_err(|_| CudaError::InvalidValue)?;
    target(stream, mode).map(drop)
}

/// cuGraphLaunch.
pub(crate) fn launch(exec: u64, stream: u64, mode: DefaultStream) -> Result {
    let started_ns = clock::monotonic_ns();
    let exec = driver()?.graph_execs.get(exec).map_err(|_| CudaError::InvalidValue)?;
    let Target { context, stream } = target(stream, mode)?;
    if stream.is_capturing() {
        return Err(CudaError::StreamCaptureUnsupported);
    }
    launch::spend(started_ns + GRAPH_LAUNCH_NS);
    exec.submit(&stream)?;
    context.counters()?.graph_launches.fetch_add(1, Relaxed);
    Ok(())
}

impl GraphExec {
    fn submit(&self, stream: &Stream) -> Result {
        for work in &self.work {
            match *work {
                NodeKind::Kernel { duration_ns } => stream.submit(WorkKind::Kernel, duration_ns, 0, 0, 0)?,
                NodeKind::Copy { kind, duration_ns, bytes } => {
                    stream.submit(kind, duration_ns, bytes, 0, 0)?
                }
                NodeKind::Empty => 0,
            };
        }
        Ok(())
    }
}

impl Graph {
    /// Appends a node and returns its handle.
    pub(crate) fn add(&mut self, kind: NodeKind) -> u64 {
        let node = NEXT_NODE.fetch_add(0x10, Relaxed);
        self.nodes.push((node, kind));
        node
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(driver) = driver() {
            for GraphAllocation { gpu, address, bytes } in &self.allocations {
                driver.memory().give_back(driver, *gpu, *address, *bytes);
            }
        }
    }
}

/// cuGraphAddMemcpyNode and cuGraphAddMemsetNode take a context, which must exist.
pub(crate) fn check_context(handle: u64) -> Result {
    if handle == 0 {
        return context::current().map(drop);
    }
    driver()?.contexts.get(handle).map(drop).map_err(|_| CudaError::InvalidContext)
}

fn find(handle: u64) -> Result<Arc<Mutex<Graph>>> {
    driver()?.graphs.get(handle).map_err(|_| CudaError::InvalidValue)
}

fn lock(graph: &Mutex<Graph>) -> MutexGuard<'_, Graph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}
