//! The driver API as a table of functions, found at run time as programs do.

use std::{
    ffi::{CString, c_char, c_void},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use super::{Via, WorkloadError};

/// How functions are found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolve {
    pub(super) via: Via,
    pub(super) per_thread: bool,
}

/// Where functions are looked for.
struct Library {
    handle: *mut c_void,
    resolve: Resolve,
    get_proc_address: Option<GetProcAddress>,
}

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut *mut c_void, i32, u64, *mut u32) -> u32;

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// Each line: field, base name, number of the variant, suffix of its per-thread form, CUDA version that cuGetProcAddress
/// is asked for to get that variant, argument types.
macro_rules! api {
    ($($field:ident = $base:literal $number:literal $per_thread:literal $version:literal ($($ty:ty),*);)*) => {
        /// The functions that workloads call.
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($ty),*) -> u32,)*
        }

        impl Api {
            fn from_library(library: &Library) -> Result<Self, WorkloadError> {
                Ok(Self {
                    $($field: {
                        let address = library.find($base, $number, $per_thread, $version)?;
                        // SAFETY: the symbol is the driver's function of this name, whose C declaration has these types.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> u32>(address)
                        }
                    },)*
                })
            }
        }
    };
}

api! {
    init = "cuInit" "" "" 2000 (u32);
    get_error_name = "cuGetErrorName" "" "" 6000 (u32, *mut *const c_char);
    get_export_table = "cuGetExportTable" "" "" 3000 (*mut *const c_void, *const [u8; 16]);
    device_get = "cuDeviceGet" "" "" 2000 (*mut i32, i32);
    device_get_uuid = "cuDeviceGetUuid" "_v2" "" 11040 (*mut [u8; 16], i32);
    primary_retain = "cuDevicePrimaryCtxRetain" "" "" 7000 (*mut u64, i32);
    primary_release = "cuDevicePrimaryCtxRelease" "_v2" "" 11000 (i32);
    primary_reset = "cuDevicePrimaryCtxReset" "_v2" "" 11000 (i32);
    ctx_create = "cuCtxCreate" "_v2" "" 3020 (*mut u64, u32, i32);
    ctx_destroy = "cuCtxDestroy" "_v2" "" 4000 (u64);
    ctx_set_current = "cuCtxSetCurrent" "" "" 4000 (u64);
    ctx_push_current = "cuCtxPushCurrent" "_v2" "" 4000 (u64);
    ctx_pop_current = "cuCtxPopCurrent" "_v2" "" 4000 (*mut u64);
    ctx_synchronize = "cuCtxSynchronize" "" "" 2000 ();
    module_load_data = "cuModuleLoadData" "" "" 2000 (*mut u64, *const c_void);
    module_get_function = "cuModuleGetFunction" "" "" 2000 (*mut u64, u64, *const c_char);

    mem_alloc = "cuMemAlloc" "_v2" "" 3020 (*mut u64, usize);
    mem_alloc_pitch = "cuMemAllocPitch" "_v2" "" 3020 (*mut u64, *mut usize, usize, usize, u32);
    mem_alloc_managed = "cuMemAllocManaged" "" "" 6000 (*mut u64, usize, u32);
    mem_free = "cuMemFree" "_v2" "" 3020 (u64);
    mem_alloc_async = "cuMemAllocAsync" "" "_ptsz" 11020 (*mut u64, usize, u64);
    mem_alloc_from_pool_async = "cuMemAllocFromPoolAsync" "" "_ptsz" 11020 (*mut u64, usize, u64, u64);
    mem_free_async = "cuMemFreeAsync" "" "_ptsz" 11020 (u64, u64);
    default_mem_pool = "cuDeviceGetDefaultMemPool" "" "" 11020 (*mut u64, i32);
    mem_create = "cuMemCreate" "" "" 10020 (*mut u64, usize, *const [u64; 4], u64);
    mem_release = "cuMemRelease" "" "" 10020 (u64);
    mem_address_reserve = "cuMemAddressReserve" "" "" 10020 (*mut u64, usize, usize, u64, u64);
    mem_address_free = "cuMemAddressFree" "" "" 10020 (u64, usize);
    mem_map = "cuMemMap" "" "" 10020 (u64, usize, usize, u64, u64);
    mem_retain_handle = "cuMemRetainAllocationHandle" "" "" 11000 (*mut u64, u64);
    mem_unmap = "cuMemUnmap" "" "" 10020 (u64, usize);
    mem_host_alloc = "cuMemHostAlloc" "" "" 2020 (*mut u64, usize, u32);
    mem_alloc_host = "cuMemAllocHost" "_v2" "" 3020 (*mut u64, usize);
    mem_free_host = "cuMemFreeHost" "" "" 2000 (u64);
    mem_host_register = "cuMemHostRegister" "_v2" "" 6050 (u64, usize, u32);
    mem_host_unregister = "cuMemHostUnregister" "" "" 4000 (u64);
    array_create = "cuArrayCreate" "_v2" "" 3020 (*mut u64, *const [u64; 3]);
    array_3d_create = "cuArray3DCreate" "_v2" "" 3020 (*mut u64, *const [u64; 5]);
    mipmapped_array_create = "cuMipmappedArrayCreate" "" "" 5000 (*mut u64, *const [u64; 5], u32);
    array_destroy = "cuArrayDestroy" "" "" 2000 (u64);
    mipmapped_array_destroy = "cuMipmappedArrayDestroy" "" "" 5000 (u64);

    launch_kernel = "cuLaunchKernel" "" "_ptsz" 4000
        (u64, u32, u32, u32, u32, u32, u32, u32, u64, *mut *mut c_void, *mut *mut c_void);
    launch_kernel_ex = "cuLaunchKernelEx" "" "_ptsz" 11060 (*const [u64; 7], u64, *mut *mut c_void, *mut *mut c_void);
    launch_cooperative = "cuLaunchCooperativeKernel" "" "_ptsz" 9000
        (u64, u32, u32, u32, u32, u32, u32, u32, u64, *mut *mut c_void);

    graph_create = "cuGraphCreate" "" "" 10000 (*mut u64, u32);
    graph_destroy = "cuGraphDestroy" "" "" 10000 (u64);
    graph_add_kernel_node = "cuGraphAddKernelNode" "_v2" "" 12000
        (*mut u64, u64, *const u64, usize, *const [u64; 9]);
    graph_instantiate = "cuGraphInstantiateWithFlags" "" "" 11040 (*mut u64, u64, u64);
    graph_exec_destroy = "cuGraphExecDestroy" "" "" 10000 (u64);
    graph_upload = "cuGraphUpload" "" "_ptsz" 11010 (u64, u64);
    graph_launch = "cuGraphLaunch" "" "_ptsz" 10000 (u64, u64);
    begin_capture = "cuStreamBeginCapture" "_v2" "_ptsz" 10010 (u64, u32);
    end_capture = "cuStreamEndCapture" "" "_ptsz" 10000 (u64, *mut u64);

    memcpy = "cuMemcpy" "" "_ptds" 4000 (u64, u64, usize);
    memcpy_async = "cuMemcpyAsync" "" "_ptsz" 4000 (u64, u64, usize, u64);
    memcpy_htod = "cuMemcpyHtoD" "_v2" "_ptds" 3020 (u64, u64, usize);
    memcpy_dtoh = "cuMemcpyDtoH" "_v2" "_ptds" 3020 (u64, u64, usize);
    memcpy_dtod = "cuMemcpyDtoD" "_v2" "_ptds" 3020 (u64, u64, usize);
    memcpy_htod_async = "cuMemcpyHtoDAsync" "_v2" "_ptsz" 3020 (u64, u64, usize, u64);
    memcpy_dtoh_async = "cuMemcpyDtoHAsync" "_v2" "_ptsz" 3020 (u64, u64, usize, u64);
    memcpy_dtod_async = "cuMemcpyDtoDAsync" "_v2" "_ptsz" 3020 (u64, u64, usize, u64);
    memcpy_peer = "cuMemcpyPeer" "" "_ptds" 4000 (u64, u64, u64, u64, usize);
    memcpy_peer_async = "cuMemcpyPeerAsync" "" "_ptsz" 4000 (u64, u64, u64, u64, usize, u64);
    memcpy_2d = "cuMemcpy2D" "_v2" "_ptds" 3020 (*const [u64; 16]);
    memcpy_2d_unaligned = "cuMemcpy2DUnaligned" "_v2" "_ptds" 3020 (*const [u64; 16]);
    memcpy_2d_async = "cuMemcpy2DAsync" "_v2" "_ptsz" 3020 (*const [u64; 16], u64);
    memcpy_3d = "cuMemcpy3D" "_v2" "_ptds" 3020 (*const [u64; 25]);
    memcpy_3d_async = "cuMemcpy3DAsync" "_v2" "_ptsz" 3020 (*const [u64; 25], u64);
    memcpy_3d_peer = "cuMemcpy3DPeer" "" "_ptds" 4000 (*const [u64; 25]);
    memcpy_batch_async = "cuMemcpyBatchAsync" "" "_ptsz" 12080
        (*const u64, *const u64, *const usize, usize, *const c_void, *const usize, usize, *mut usize, u64);
    memcpy_batch_async_v2 = "cuMemcpyBatchAsync" "_v2" "_ptsz" 13000
        (*const u64, *const u64, *const usize, usize, *const c_void, *const usize, usize, u64);
    memcpy_htoa = "cuMemcpyHtoA" "_v2" "_ptds" 3020 (u64, usize, u64, usize);
    memcpy_atoh = "cuMemcpyAtoH" "_v2" "_ptds" 3020 (u64, u64, usize, usize);
    memcpy_dtoa = "cuMemcpyDtoA" "_v2" "_ptds" 3020 (u64, usize, u64, usize);
    memcpy_atod = "cuMemcpyAtoD" "_v2" "_ptds" 3020 (u64, u64, usize, usize);
    memcpy_atoa = "cuMemcpyAtoA" "_v2" "_ptds" 3020 (u64, usize, u64, usize, usize);
    memcpy_htoa_async = "cuMemcpyHtoAAsync" "_v2" "_ptsz" 3020 (u64, usize, u64, usize, u64);
    memcpy_atoh_async = "cuMemcpyAtoHAsync" "_v2" "_ptsz" 3020 (u64, u64, usize, usize, u64);

    memset_d8 = "cuMemsetD8" "_v2" "_ptds" 3020 (u64, u8, usize);
    memset_d16 = "cuMemsetD16" "_v2" "_ptds" 3020 (u64, u16, usize);
    memset_d32 = "cuMemsetD32" "_v2" "_ptds" 3020 (u64, u32, usize);
    memset_d2d32 = "cuMemsetD2D32" "_v2" "_ptds" 3020 (u64, usize, u32, usize, usize);
    memset_d8_async = "cuMemsetD8Async" "" "_ptsz" 3020 (u64, u8, usize, u64);
    memset_d32_async = "cuMemsetD32Async" "" "_ptsz" 3020 (u64, u32, usize, u64);
    memset_d2d8_async = "cuMemsetD2D8Async" "" "_ptsz" 3020 (u64, usize, u8, usize, usize, u64);

    stream_create = "cuStreamCreate" "" "" 2000 (*mut u64, u32);
    stream_destroy = "cuStreamDestroy" "_v2" "" 4000 (u64);
    stream_synchronize = "cuStreamSynchronize" "" "_ptsz" 2000 (u64);
    stream_wait_event = "cuStreamWaitEvent" "" "_ptsz" 3020 (u64, u64, u32);
    event_create = "cuEventCreate" "" "" 2000 (*mut u64, u32);
    event_destroy = "cuEventDestroy" "_v2" "" 4000 (u64);
    event_record = "cuEventRecord" "" "_ptsz" 2000 (u64, u64);
    event_synchronize = "cuEventSynchronize" "" "" 2000 (u64);
}

impl Api {
    /// Loads the library and finds all functions.
    pub(super) fn load(path: &Path, resolve: Resolve) -> Result<Self, WorkloadError> {
        let load_error = |reason: String| WorkloadError::Load { path: path.to_owned(), reason };
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|error| load_error(error.to_string()))?;
        // SAFETY: the name is a terminated string; the library's initialisers are the double's or the driver's own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: dlerror returns null or a terminated string that is valid until the next call of its family.
            let reason = unsafe { libc::dlerror().as_ref().map(|text| std::ffi::CStr::from_ptr(text)) };
            let reason = reason.map_or_else(String::new, |text| text.to_string_lossy().into_owned());
            return Err(load_error(reason));
        }
        let mut library = Library { handle, resolve, get_proc_address: None };
        if resolve.via == Via::GetProcAddress {
            let address = library.exported("cuGetProcAddress_v2")?;
            // SAFETY: the symbol is the driver's function of this name, whose C declaration has these types.
            library.get_proc_address =
                Some(unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(address) });
        }
        Self::from_library(&library)
    }
}

impl Library {
    fn find(
        &self,
        base: &str,
        number: &str,
        suffix: &str,
        version: i32,
    ) -> Result<*mut c_void, WorkloadError> {
        let per_thread = self.resolve.per_thread;
        let Some(get_proc_address) = self.get_proc_address else {
            return self.exported(&format!("{base}{number}{}", if per_thread { suffix } else { "" }));
        };
        let missing = || WorkloadError::Symbol { symbol: base.to_owned() };
        let symbol = CString::new(base).ok().ok_or_else(missing)?;
        let flags = if per_thread { PER_THREAD_DEFAULT_STREAM } else { 0 };
        let (mut address, mut status) = (std::ptr::null_mut(), 0);
        // SAFETY: all pointers lead to live variables of the types that the function stores to.
        let code =
            unsafe { get_proc_address(symbol.as_ptr(), &raw mut address, version, flags, &raw mut status) };
        if code == 0 && status == 0 && !address.is_null() { Ok(address) } else { Err(missing()) }
    }

    fn exported(&self, name: &str) -> Result<*mut c_void, WorkloadError> {
        let missing = || WorkloadError::Symbol { symbol: name.to_owned() };
        let symbol = CString::new(name).ok().ok_or_else(missing)?;
        // SAFETY: the handle is that of a loaded library, the name a terminated string.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if address.is_null() { Err(missing()) } else { Ok(address) }
    }
}
