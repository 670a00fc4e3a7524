//! CUDA's result codes.

/// Result of every internal function.
pub(crate) type Result<T = ()> = std::result::Result<T, CudaError>;

macro_rules! errors {
    ($($name:ident = $code:literal, $c_name:literal, $text:literal;)*) => {
        /// A failure, by its number in cuda.h (CUresult). 0, success, is not an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum CudaError {
            $($name = $code,)*
        }

        /// Number, name and description of each code, the last two with a terminating zero.
        const TEXTS: &[(u32, &str, &str)] = &[
            (0, "CUDA_SUCCESS\0", "no error\0"),
            $(($code, concat!($c_name, "\0"), concat!($text, "\0")),)*
        ];
    };
}

errors! {
    InvalidValue = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OutOfMemory = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NotInitialized = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    Deinitialized = 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    NoDevice = 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    InvalidDevice = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    InvalidContext = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    OperatingSystem = 304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    InvalidHandle = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    IllegalState = 401, "CUDA_ERROR_ILLEGAL_STATE",
        "the operation cannot be performed in the present state";
    NotFound = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NotReady = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    PeerAccessAlreadyEnabled = 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
        "peer access is already enabled";
    PeerAccessNotEnabled = 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    ContextIsDestroyed = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    HostMemoryAlreadyRegistered = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        "part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        "pointer does not correspond to a registered memory region";
    NotSupported = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    SystemNotReady = 802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized";
    StreamCaptureUnsupported = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "operation not permitted when stream is capturing";
    Unknown = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

impl CudaError {
    /// The number that the caller gets.
    pub(crate) fn code(self) -> u32 {
        self as u32
    }
}

/// Name of a code, with a terminating zero.
pub(crate) fn name(code: u32) -> Result<&'static str> {
    TEXTS.iter().find(|text| text.0 == code).map(|text| text.1).ok_or(CudaError::InvalidValue)
}

/// Description of a code, with a terminating zero.
pub(crate) fn description(code: u32) -> Result<&'static str> {
    TEXTS.iter().find(|text| text.0 == code).map(|text| text.2).ok_or(CudaError::InvalidValue)
}

impl From<gpu_sim::machine::channel::ChannelError> for CudaError {
    fn from(error: gpu_sim::machine::channel::ChannelError) -> Self {
        use gpu_sim::machine::channel::ChannelError;
        match error {
            ChannelError::NoChannel => Self::OperatingSystem,
            ChannelError::NotServed => Self::SystemNotReady,
        }
    }
}

impl From<gpu_sim::machine::memory::OutOfMemory> for CudaError {
    fn from(_: gpu_sim::machine::memory::OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}
