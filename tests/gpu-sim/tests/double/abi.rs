//! Calls as C programs make them, each test in a process of its own.

use std::{
    ffi::{CStr, c_char, c_void},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use super::{
    library::{Library, call},
    support::in_child,
};

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const NOT_INITIALIZED: u32 = 3;
const NO_DEVICE: u32 = 100;
const INVALID_DEVICE: u32 = 101;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const NOT_FOUND: u32 = 500;
const CONTEXT_IS_DESTROYED: u32 = 709;

fn initialised() -> Library {
    let library = Library::load();
    assert_eq!(call!(library, "cuInit"(u32 = 0)), 0);
    library
}

/// An initialised library with the primary context of device 0 current.
fn with_context() -> (Library, u64) {
    let library = initialised();
    let mut context = 0;
    assert_eq!(call!(library, "cuDevicePrimaryCtxRetain"(*mut u64 = &raw mut context, i32 = 0)), 0);
    assert_eq!(call!(library, "cuCtxSetCurrent"(u64 = context)), 0);
    (library, context)
}

fn alloc(library: &Library, bytes: usize) -> Result<u64, u32> {
    let mut address = 0;
    match call!(library, "cuMemAlloc_v2"(*mut u64 = &raw mut address, usize = bytes)) {
        0 => Ok(address),
        code => Err(code),
    }
}

fn free_bytes(library: &Library) -> usize {
    let (mut free, mut total) = (0, 0);
    assert_eq!(call!(library, "cuMemGetInfo_v2"(*mut usize = &raw mut free, *mut usize = &raw mut total)), 0);
    free
}

fn function(library: &Library, name: &CStr) -> Result<u64, u32> {
    let (mut module, mut function) = (0, 0);
    let image = c"image";
    assert_eq!(
        call!(library, "cuModuleLoadData"(*mut u64 = &raw mut module, *const c_void = image.as_ptr().cast())),
        0
    );
    match call!(library, "cuModuleGetFunction"(
        *mut u64 = &raw mut function, u64 = module, *const c_char = name.as_ptr(),
    )) {
        0 => Ok(function),
        code => Err(code),
    }
}

fn launch(library: &Library, function: u64, grid: u32, stream: u64) -> u32 {
    call!(library, "cuLaunchKernel"(
        u64 = function, u32 = grid, u32 = 1, u32 = 1, u32 = 32, u32 = 1, u32 = 1, u32 = 0, u64 = stream,
        *mut c_void = std::ptr::null_mut(), *mut c_void = std::ptr::null_mut(),
    ))
}

#[test]
fn nothing_works_before_initialisation() {
    in_child("abi::nothing_works_before_initialisation", "1xT4", &[], || {
        let library = Library::load();
        assert_eq!(alloc(&library, 1), Err(NOT_INITIALIZED));
        assert_eq!(call!(library, "cuCtxSynchronize"()), NOT_INITIALIZED);
        let mut count = 0;
        assert_eq!(call!(library, "cuDeviceGetCount"(*mut i32 = &raw mut count)), NOT_INITIALIZED);
        assert_eq!(call!(library, "cuInit"(u32 = 1)), INVALID_VALUE);
        let mut version = 0;
        assert_eq!(call!(library, "cuDriverGetVersion"(*mut i32 = &raw mut version)), 0);
        assert_eq!(version, 13_000);
    });
}

#[test]
fn without_visible_devices_there_is_no_driver() {
    let hidden = [("CUDA_VISIBLE_DEVICES", "0,0")];
    in_child("abi::without_visible_devices_there_is_no_driver", "2xA10", &hidden, || {
        let library = Library::load();
        assert_eq!(call!(library, "cuInit"(u32 = 0)), NO_DEVICE);
    });
}

#[test]
fn devices_describe_themselves() {
    let reversed = [("CUDA_VISIBLE_DEVICES", "1,0")];
    in_child("abi::devices_describe_themselves", "2xA10", &reversed, || {
        let library = initialised();
        let scenario = gpu_sim::scenario::Scenario::preset("2xA10").expect("preset");
        let mut uuid = [0_u8; 16];
        assert_eq!(call!(library, "cuDeviceGetUuid_v2"(*mut [u8; 16] = &raw mut uuid, i32 = 0)), 0);
        assert_eq!(gpu_sim::scenario::format_uuid(uuid), scenario.gpus[1].uuid);
        let mut text = [0_u8; 32];
        let buffer = text.as_mut_ptr().cast::<c_char>();
        assert_eq!(call!(library, "cuDeviceGetPCIBusId"(*mut c_char = buffer, i32 = 32, i32 = 0)), 0);
        assert_eq!(CStr::from_bytes_until_nul(&text), Ok(c"0000:65:00.0"));
        assert_eq!(call!(library, "cuDeviceGetName"(*mut c_char = buffer, i32 = 7, i32 = 1)), 0);
        assert_eq!(CStr::from_bytes_until_nul(&text), Ok(c"NVIDIA"));
        let mut value = 0;
        assert_eq!(call!(library, "cuDeviceGetAttribute"(*mut i32 = &raw mut value, i32 = 16, i32 = 0)), 0);
        assert_eq!(value, 72);
        assert_eq!(
            call!(library, "cuDeviceGetAttribute"(*mut i32 = &raw mut value, i32 = 16, i32 = 2)),
            INVALID_DEVICE
        );
        let mut total = 0;
        assert_eq!(call!(library, "cuDeviceTotalMem_v2"(*mut usize = &raw mut total, i32 = 0)), 0);
        assert_eq!(total, 23_028 << 20);
    });
}

#[test]
fn memory_is_rounded_and_shares_blocks() {
    in_child("abi::memory_is_rounded_and_shares_blocks", "2xA10", &[], || {
        let (library, _) = with_context();
        let before = free_bytes(&library);
        let first = alloc(&library, 1).expect("memory");
        let second = alloc(&library, 513).expect("memory");
        let third = alloc(&library, 1).expect("memory");
        assert_eq!((second - first, third - second), (512, 1024));
        assert_eq!(before - free_bytes(&library), 2 << 20);
        let large = alloc(&library, (3 << 20) + 1).expect("memory");
        assert_eq!(before - free_bytes(&library), 6 << 20);
        for address in [first, second, third, large, 0] {
            assert_eq!(call!(library, "cuMemFree_v2"(u64 = address)), 0);
        }
        assert_eq!(free_bytes(&library), before);
        assert_eq!(call!(library, "cuMemFree_v2"(u64 = first)), INVALID_VALUE);
        assert_eq!(alloc(&library, 0), Err(INVALID_VALUE));
        assert_eq!(alloc(&library, 1 << 62), Err(OUT_OF_MEMORY));
        assert_eq!(alloc(&library, before + 1), Err(OUT_OF_MEMORY));
        alloc(&library, before).expect("all of it");
        assert_eq!(alloc(&library, 1), Err(OUT_OF_MEMORY));
    });
}

#[test]
fn pooled_memory_stays_claimed_until_a_synchronisation() {
    in_child("abi::pooled_memory_stays_claimed_until_a_synchronisation", "2xA10", &[], || {
        let (library, _) = with_context();
        let before = free_bytes(&library);
        let mut address = 0;
        let code = call!(library, "cuMemAllocAsync"(*mut u64 = &raw mut address, usize = 4 << 20, u64 = 0));
        assert_eq!(code, 0);
        assert_eq!(call!(library, "cuMemFreeAsync"(u64 = address, u64 = 0)), 0);
        assert_eq!(before - free_bytes(&library), 4 << 20);
        assert_eq!(call!(library, "cuStreamSynchronize"(u64 = 0)), 0);
        assert_eq!(free_bytes(&library), before);
    });
}

#[test]
fn contexts_own_their_memory() {
    in_child("abi::contexts_own_their_memory", "2xA10", &[], || {
        let (library, primary) = with_context();
        let before = free_bytes(&library);
        let mut context = 0;
        assert_eq!(call!(library, "cuCtxCreate_v2"(*mut u64 = &raw mut context, u32 = 0, i32 = 0)), 0);
        let address = alloc(&library, 2 << 20).expect("memory");
        assert_eq!(before - free_bytes(&library), 252 << 20);
        assert_eq!(call!(library, "cuCtxDestroy_v2"(u64 = context)), 0);
        // The context before it on the stack is current again.
        let mut current = 0;
        assert_eq!(call!(library, "cuCtxGetCurrent"(*mut u64 = &raw mut current)), 0);
        assert_eq!(current, primary);
        assert_eq!(free_bytes(&library), before);
        assert_eq!(call!(library, "cuMemFree_v2"(u64 = address)), INVALID_VALUE);
        assert_eq!(call!(library, "cuCtxSetCurrent"(u64 = context)), INVALID_CONTEXT);
        assert_eq!(call!(library, "cuCtxDestroy_v2"(u64 = primary)), INVALID_CONTEXT);
    });
}

#[test]
fn the_last_reference_ends_the_primary_context() {
    in_child("abi::the_last_reference_ends_the_primary_context", "2xA10", &[], || {
        let (library, context) = with_context();
        let mut again = 0;
        assert_eq!(call!(library, "cuDevicePrimaryCtxRetain"(*mut u64 = &raw mut again, i32 = 0)), 0);
        assert_eq!(again, context);
        alloc(&library, 1 << 20).expect("memory");
        assert_eq!(call!(library, "cuDevicePrimaryCtxRelease_v2"(i32 = 0)), 0);
        alloc(&library, 1 << 20).expect("memory");
        assert_eq!(call!(library, "cuDevicePrimaryCtxRelease_v2"(i32 = 0)), 0);
        assert_eq!(alloc(&library, 1), Err(CONTEXT_IS_DESTROYED));
        assert_eq!(call!(library, "cuDevicePrimaryCtxRelease_v2"(i32 = 0)), INVALID_CONTEXT);
    });
}

#[test]
fn a_thread_begins_without_a_context() {
    in_child("abi::a_thread_begins_without_a_context", "1xT4", &[], || {
        let (library, _) = with_context();
        let address = library.address("cuCtxSynchronize") as usize;
        let code = std::thread::spawn(move || {
            // SAFETY: cuCtxSynchronize takes no arguments.
            unsafe { std::mem::transmute::<usize, unsafe extern "C" fn() -> u32>(address)() }
        });
        assert_eq!(code.join().expect("thread"), INVALID_CONTEXT);
    });
}

#[test]
fn launches_are_checked_and_timed() {
    in_child("abi::launches_are_checked_and_timed", "1xT4", &[], || {
        let (library, _) = with_context();
        let kernel = function(&library, c"sim_ms_3").expect("function");
        assert_eq!(function(&library, c"sim_missing"), Err(NOT_FOUND));
        assert_eq!(launch(&library, kernel, 0, 0), INVALID_VALUE);
        assert_eq!(launch(&library, 42, 1, 0), INVALID_HANDLE);
        assert_eq!(launch(&library, kernel, 1, 42), INVALID_HANDLE);
        let mut events = [0_u64; 2];
        for event in &mut events {
            assert_eq!(call!(library, "cuEventCreate"(*mut u64 = event, u32 = 0)), 0);
        }
        assert_eq!(call!(library, "cuEventRecord"(u64 = events[0], u64 = 0)), 0);
        assert_eq!(launch(&library, kernel, 1, 0), 0);
        assert_eq!(launch(&library, kernel, 1, 0), 0);
        assert_eq!(call!(library, "cuEventRecord"(u64 = events[1], u64 = 0)), 0);
        assert_eq!(call!(library, "cuEventSynchronize"(u64 = events[1])), 0);
        let mut elapsed_ms = 0.0_f32;
        assert_eq!(
            call!(library, "cuEventElapsedTime"(*mut f32 = &raw mut elapsed_ms, u64 = events[0], u64 = events[1])),
            0
        );
        // At least the two kernels; more where the second was launched late.
        assert!(elapsed_ms >= 6.0, "{elapsed_ms}");
    });
}

#[test]
fn managed_memory_is_host_memory() {
    in_child("abi::managed_memory_is_host_memory", "1xT4", &[], || {
        let (library, _) = with_context();
        let mut managed = 0_u64;
        let code = call!(library, "cuMemAllocManaged"(*mut u64 = &raw mut managed, usize = 8192, u32 = 1));
        assert_eq!(code, 0);
        let source = [7_u8; 8192];
        let code =
            call!(library, "cuMemcpy"(u64 = managed, u64 = source.as_ptr() as u64, usize = source.len()));
        assert_eq!(code, 0);
        // SAFETY: managed memory of this size was just allocated, and the copy has ended.
        let content = unsafe { std::slice::from_raw_parts(managed as *const u8, 8192) };
        assert_eq!(content, source);
        assert_eq!(call!(library, "cuMemFree_v2"(u64 = managed)), 0);
    });
}

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle([u64; 8]);

#[test]
fn a_handle_of_64_bytes_is_passed_by_value() {
    in_child("abi::a_handle_of_64_bytes_is_passed_by_value", "1xT4", &[], || {
        let (library, _) = with_context();
        let address = alloc(&library, 4096).expect("memory");
        let mut handle = [0_u64; 8];
        assert_eq!(call!(library, "cuIpcGetMemHandle"(*mut [u64; 8] = &raw mut handle, u64 = address)), 0);
        let mut opened = 0;
        let open = |handle, opened: &mut u64| call!(library, "cuIpcOpenMemHandle_v2"(*mut u64 = opened, Handle = handle, u32 = 1));
        assert_eq!(open(Handle(handle), &mut opened), 0);
        assert_ne!(opened, 0);
        assert_eq!(open(Handle([5; 8]), &mut opened), INVALID_VALUE);
        assert_eq!(call!(library, "cuIpcCloseMemHandle"(u64 = opened)), 0);
        assert_eq!(call!(library, "cuIpcCloseMemHandle"(u64 = opened)), INVALID_VALUE);
    });
}

#[test]
fn a_host_function_runs_between_kernels() {
    static RUN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(argument: *mut c_void) {
        RUN.fetch_add(argument as usize, SeqCst);
    }
    in_child("abi::a_host_function_runs_between_kernels", "1xT4", &[], || {
        let (library, _) = with_context();
        let kernel = function(&library, c"sim_us_100").expect("function");
        let function: extern "C" fn(*mut c_void) = count;
        for argument in [1_usize, 10, 100] {
            assert_eq!(launch(&library, kernel, 1, 0), 0);
            let code = call!(library, "cuLaunchHostFunc"(
                u64 = 0, extern "C" fn(*mut c_void) = function, *mut c_void = argument as *mut c_void,
            ));
            assert_eq!(code, 0);
        }
        assert_eq!(call!(library, "cuCtxSynchronize"()), 0);
        assert_eq!(RUN.load(SeqCst), 111);
    });
}

#[test]
fn errors_have_names() {
    let library = Library::load();
    let mut name: *const c_char = std::ptr::null();
    assert_eq!(call!(library, "cuGetErrorName"(u32 = 2, *mut *const c_char = &raw mut name)), 0);
    // SAFETY: the call succeeded, so the pointer leads to a terminated constant string.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"CUDA_ERROR_OUT_OF_MEMORY");
    assert_eq!(
        call!(library, "cuGetErrorName"(u32 = 12_345, *mut *const c_char = &raw mut name)),
        INVALID_VALUE
    );
}
