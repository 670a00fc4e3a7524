//! The few driver calls that are measured, found in the library as programs find them.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    ptr::null_mut,
};

use anyhow::{Context as _, Result, ensure};

/// A kernel that takes the device no time.
const KERNEL: &CStr = c"sim_ns_0";
/// Bytes of each copy.
const COPY_BYTES: usize = 64;

type LaunchKernel = unsafe extern "C" fn(
    u64,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u64,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;
type CopyToDevice = unsafe extern "C" fn(u64, *const c_void, usize) -> u32;
type Synchronize = unsafe extern "C" fn() -> u32;

/// An initialised driver with a context, a kernel and a buffer on device 0, for the thread that made it.
pub(crate) struct Driver {
    launch_kernel: LaunchKernel,
    copy_to_device: CopyToDevice,
    synchronize: Synchronize,
    kernel: u64,
    buffer: u64,
}

/// A loaded library; it stays until the process ends.
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes()).context("the path has a zero byte")?;
        // SAFETY: the name is a terminated string; the library's initialisers are the driver's or its double's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        ensure!(!handle.is_null(), "cannot load `{}`", path.display());
        Ok(Self(handle))
    }

    fn find(&self, name: &CStr) -> Result<*mut c_void> {
        // SAFETY: the handle is that of a loaded library, the name a terminated string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        ensure!(!address.is_null(), "the library has no `{}`", name.to_string_lossy());
        Ok(address)
    }
}

/// Finds a function by its exported name and gives it the type of its C declaration.
macro_rules! function {
    ($library:expr, $name:literal as $ty:ty) => {{
        let address = $library.find($name)?;
        // SAFETY: the symbol is the driver's function of this name, whose C declaration has this type.
        unsafe { std::mem::transmute::<*mut c_void, $ty>(address) }
    }};
}

/// Turns a `CUresult` into an error that names the call.
fn check(call: &str, code: u32) -> Result<()> {
    ensure!(code == 0, "{call} fails with {code}");
    Ok(())
}

impl Driver {
    /// Loads the library and prepares everything that the measured calls need.
    pub(crate) fn start(path: &Path) -> Result<Self> {
        let library = Library::open(path)?;
        let initialise = function!(library, c"cuInit" as unsafe extern "C" fn(u32) -> u32);
        let retain =
            function!(library, c"cuDevicePrimaryCtxRetain" as unsafe extern "C" fn(*mut u64, i32) -> u32);
        let set_current = function!(library, c"cuCtxSetCurrent" as unsafe extern "C" fn(u64) -> u32);
        let load =
            function!(library, c"cuModuleLoadData" as unsafe extern "C" fn(*mut u64, *const c_void) -> u32);
        let get_function = function!(
            library,
            c"cuModuleGetFunction" as unsafe extern "C" fn(*mut u64, u64, *const c_char) -> u32
        );
        let allocate = function!(library, c"cuMemAlloc_v2" as unsafe extern "C" fn(*mut u64, usize) -> u32);

        let (mut context, mut module, mut kernel, mut buffer) = (0, 0, 0, 0);
        // SAFETY: the call takes no pointers.
        check("cuInit", unsafe { initialise(0) })?;
        // SAFETY: the call stores to the variable.
        check("cuDevicePrimaryCtxRetain", unsafe { retain(&raw mut context, 0) })?;
        // SAFETY: the call takes no pointers.
        check("cuCtxSetCurrent", unsafe { set_current(context) })?;
        let image = c"an image that nobody looks at";
        // SAFETY: the image outlives the call, which stores to the variable.
        check("cuModuleLoadData", unsafe { load(&raw mut module, image.as_ptr().cast()) })?;
        // SAFETY: the name is a terminated string, and the call stores to the variable.
        check("cuModuleGetFunction", unsafe { get_function(&raw mut kernel, module, KERNEL.as_ptr()) })?;
        // SAFETY: the call stores to the variable.
        check("cuMemAlloc", unsafe { allocate(&raw mut buffer, COPY_BYTES) })?;
        Ok(Self {
            launch_kernel: function!(library, c"cuLaunchKernel" as LaunchKernel),
            copy_to_device: function!(library, c"cuMemcpyHtoD_v2" as CopyToDevice),
            synchronize: function!(library, c"cuCtxSynchronize" as Synchronize),
            kernel,
            buffer,
        })
    }

    /// One launch on the default stream.
    pub(crate) fn launch(&self) -> Result<()> {
        // SAFETY: the kernel takes no parameters, so both lists may be null.
        let code =
            unsafe { (self.launch_kernel)(self.kernel, 1, 1, 1, 1, 1, 1, 0, 0, null_mut(), null_mut()) };
        check("cuLaunchKernel", code)
    }

    /// One copy to the device.
    pub(crate) fn copy(&self) -> Result<()> {
        let bytes = [0_u8; COPY_BYTES];
        // SAFETY: the source holds as many bytes as are copied, and so does the buffer on the device.
        let code = unsafe { (self.copy_to_device)(self.buffer, bytes.as_ptr().cast(), COPY_BYTES) };
        check("cuMemcpyHtoD", code)
    }

    /// Waits for the device.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the call takes no arguments.
        check("cuCtxSynchronize", unsafe { (self.synchronize)() })
    }
}
