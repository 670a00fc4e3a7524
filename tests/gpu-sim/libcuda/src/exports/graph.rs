//! Graphs.

use std::ffi::c_char;

use crate::{
    abi::{
        CUcontext, CUdeviceptr, CUgraph, CUgraphExec, CUgraphNode, CUstream, GraphInstantiateParams,
        KernelNodeParams, MemAllocNodeParams, Memcpy3D, MemsetNodeParams, Out, read, read_array,
    },
    copy,
    entry::exports,
    error::{CudaError, Result},
    graph::{self, NodeKind},
};

exports! {
    fn cuGraphCreate(out: *mut CUgraph, _flags: u32) =
        Out::new(out).and_then(|out| graph::create().map(|handle| out.set(handle)));

    fn cuGraphDestroy(graph: CUgraph) = graph::destroy(graph);

    /// Version 1 of the parameters, which version 2 extends at its end.
    fn cuGraphAddKernelNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        parameters: *const KernelNodeParams,
    ) = kernel_node(Out::new(out), graph, read_array(dependencies, count), read(parameters));

    /// CUDA 12.0.
    fn cuGraphAddKernelNode_v2(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        parameters: *const KernelNodeParams,
    ) = kernel_node(Out::new(out), graph, read_array(dependencies, count), read(parameters));

    fn cuGraphAddMemcpyNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        parameters: *const Memcpy3D, context: CUcontext,
    ) = (|| {
        let (out, parameters) = (Out::new(out)?, read(parameters)?);
        graph::check_context(context)?;
        out.set(graph::add_node(graph, &read_array(dependencies, count)?, copy::node(&parameters)?)?);
        Ok(())
    })();

    fn cuGraphAddMemsetNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        parameters: *const MemsetNodeParams, context: CUcontext,
    ) = (|| {
        let (out, parameters) = (Out::new(out)?, read(parameters)?);
        graph::check_context(context)?;
        let MemsetNodeParams { element_bytes, width, height, .. } = parameters;
        let node = copy::set_node(element_bytes as usize, width, height)?;
        out.set(graph::add_node(graph, &read_array(dependencies, count)?, node)?);
        Ok(())
    })();

    fn cuGraphAddEmptyNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
    ) = (|| {
        let out = Out::new(out)?;
        out.set(graph::add_node(graph, &read_array(dependencies, count)?, NodeKind::Empty)?);
        Ok(())
    })();

    /// The address comes back in the parameters.
    fn cuGraphAddMemAllocNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        parameters: *mut MemAllocNodeParams,
    ) = (|| {
        let (out, parameters_out, mut values) = (Out::new(out)?, Out::new(parameters)?, read(parameters)?);
        let dependencies = read_array(dependencies, count)?;
        let ordinal = values.pool.location.id;
        let (node, address) = graph::add_allocation_node(graph, &dependencies, ordinal, values.bytes)?;
        values.dptr = address;
        parameters_out.set(values);
        out.set(node);
        Ok(())
    })();

    fn cuGraphAddMemFreeNode(
        out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        address: CUdeviceptr,
    ) = (|| {
        let out = Out::new(out)?;
        out.set(graph::add_free_node(graph, &read_array(dependencies, count)?, address)?);
        Ok(())
    })();

    /// With a null array only the count is returned.
    fn cuGraphGetNodes(graph: CUgraph, nodes_out: *mut CUgraphNode, count_inout: *mut usize) = (|| {
        let (count_out, room) = (Out::new(count_inout)?, read(count_inout)?);
        let nodes = graph::nodes(graph)?;
        if nodes_out.is_null() {
            count_out.set(nodes.len());
            return Ok(());
        }
        let fitting = nodes.len().min(room);
        for (index, node) in nodes[..fitting].iter().enumerate() {
            Out::new(nodes_out.add(index))?.set(*node);
        }
        count_out.set(fitting);
        Ok(())
    })();

    fn cuGraphInstantiate_v2(
        out: *mut CUgraphExec, graph: CUgraph, _error_node: *mut CUgraphNode, _log: *mut c_char, _log_bytes: usize,
    ) = instantiate(Out::new(out), graph);

    fn cuGraphInstantiateWithFlags(out: *mut CUgraphExec, graph: CUgraph, _flags: u64) =
        instantiate(Out::new(out), graph);

    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz[mode](
        out: *mut CUgraphExec, graph: CUgraph, parameters: *mut GraphInstantiateParams,
    ) = (|| {
        let (out, parameters_out, mut values) = (Out::new(out)?, Out::new(parameters)?, read(parameters)?);
        let exec = graph::instantiate(graph)?;
        // CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
        if values.flags & 2 != 0 {
            graph::upload(exec, values.upload_stream, mode)?;
        }
        values.result = 0;
        parameters_out.set(values);
        out.set(exec);
        Ok(())
    })();

    fn cuGraphExecDestroy(exec: CUgraphExec) = graph::destroy_exec(exec);

    fn cuGraphUpload | cuGraphUpload_ptsz[mode](exec: CUgraphExec, stream: CUstream) =
        graph::upload(exec, stream, mode);

    fn cuGraphLaunch | cuGraphLaunch_ptsz[mode](exec: CUgraphExec, stream: CUstream) =
        graph::launch(exec, stream, mode);
}

fn instantiate(out: Result<Out<CUgraphExec>>, graph: CUgraph) -> Result {
    let out = out?;
    out.set(graph::instantiate(graph)?);
    Ok(())
}

fn kernel_node(
    out: Result<Out<CUgraphNode>>,
    graph: CUgraph,
    dependencies: Result<Vec<CUgraphNode>>,
    parameters: Result<KernelNodeParams>,
) -> Result {
    let (out, parameters) = (out?, parameters?);
    if parameters.grid.contains(&0) || parameters.block.contains(&0) {
        return Err(CudaError::InvalidValue);
    }
    out.set(graph::add_kernel_node(graph, &dependencies?, parameters.function)?);
    Ok(())
}
