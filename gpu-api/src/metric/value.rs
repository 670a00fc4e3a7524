//! Values of the attributes whose set is closed.

/// Defines an enumeration with the text of each variant and the list of all texts.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// The text of every variant, in their order.
            pub const VALUES: &'static [&'static str] = &[$($text),+];
            /// Every variant, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value as it is exported.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    )+};
}

values! {
    /// State of a device, by the semantic conventions.
    HwState {
        Ok = "ok",
        Degraded = "degraded",
        Failed = "failed",
        NeedsCleaning = "needs_cleaning",
        PredictedFailure = "predicted_failure",
    }

    /// Whether a device answers its driver.
    DeviceCondition {
        Ok = "ok",
        /// It cannot be read and may come back by itself.
        Unavailable = "unavailable",
        /// It fell off the bus, or is no longer listed.
        Lost = "lost",
        /// A call to it has not returned.
        Hung = "hung",
    }

    /// Whether a GPU is partitioned.
    MigMode {
        Enabled = "enabled",
        Disabled = "disabled",
    }

    /// Whether memory errors were corrected.
    EccError {
        Corrected = "corrected",
        Uncorrected = "uncorrected",
    }

    /// What went wrong on an NVLink.
    LinkError {
        /// A packet was sent again.
        Replay = "replay",
        /// The link was trained again.
        Recovery = "recovery",
        /// A flit had a wrong checksum.
        CrcFlit = "crc_flit",
        /// Data had a wrong checksum.
        CrcData = "crc_data",
    }

    /// What a GPU's utilisation is about.
    GpuTask {
        General = "general",
        Encoder = "encoder",
        Decoder = "decoder",
    }

    /// Place of a temperature sensor.
    SensorLocation {
        Gpu = "gpu",
        Memory = "memory",
    }

    /// What the driver does at a temperature.
    TemperatureLimit {
        /// Clocks are lowered.
        HighCritical = "high.critical",
        /// The device shuts down.
        HighFatal = "high.fatal",
        /// Memory clocks are lowered.
        MemoryHighCritical = "memory.high.critical",
    }

    /// Direction of traffic as the GPU sees it.
    IoDirection {
        Receive = "receive",
        Transmit = "transmit",
    }

    /// Execution pipe of a streaming multiprocessor.
    Pipe {
        Fp16 = "fp16",
        Fp32 = "fp32",
        Fp64 = "fp64",
        Integer = "integer",
        Tensor = "tensor",
    }

    /// Clock domain of a GPU.
    ClockDomain {
        Graphics = "graphics",
        Memory = "memory",
        Sm = "sm",
        Video = "video",
    }

    /// Why the clocks of a GPU are lower than they could be, as NVML's `nvmlClocksEventReasons` names it.
    ThrottleReason {
        Idle = "idle",
        /// Set by an administrator.
        ApplicationClocks = "application_clocks",
        PowerCap = "power_cap",
        /// The hardware protects itself from power or heat.
        HardwareSlowdown = "hardware_slowdown",
        /// Held to the clocks of a group of GPUs.
        SyncBoost = "sync_boost",
        SoftwareThermal = "software_thermal",
        HardwareThermal = "hardware_thermal",
        /// The power supply asks for less.
        HardwarePowerBrake = "hardware_power_brake",
        Display = "display",
    }

    /// What held the clocks of a GPU back for a time that the driver counts, as NVML's `nvmlPerfPolicyType` names it.
    ThrottlePolicy {
        Power = "power",
        Thermal = "thermal",
        /// The board's own limits.
        Board = "board",
        /// The limit of the voltage for reliability.
        Reliability = "reliability",
    }

    /// A way between two GPUs, nearest first; in parentheses the name in `nvidia-smi topo -m`.
    LinkType {
        NvLink = "nvlink",
        /// Both are on one board (INT).
        Internal = "internal",
        /// One PCIe switch (PIX).
        PcieSwitch = "pcie_switch",
        /// Several PCIe switches (PXB).
        PcieSwitches = "pcie_switches",
        /// One PCIe host bridge (PHB).
        HostBridge = "host_bridge",
        /// One NUMA node (NODE).
        NumaNode = "numa_node",
        /// Between NUMA nodes (SYS).
        System = "system",
    }

    /// Where a tenant's name comes from.
    TenantKind {
        /// A `[[tenant]]` rule of the configuration.
        Configured = "configured",
        Pod = "pod",
        Container = "container",
        SystemdUnit = "systemd_unit",
        Cgroup = "cgroup",
        /// Everything in the root cgroup.
        Root = "root",
        /// Cgroup and process were gone before they could be named.
        Unknown = "unknown",
    }

    /// How memory was allocated; an allocation has one kind for its whole life.
    MemoryKind {
        /// `cuMemAlloc`, `cuMemAllocPitch`.
        Device = "device",
        /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`; freed bytes go back to the pool.
        Pool = "pool",
        /// `cuMemAllocManaged`; where its pages live is unknown.
        Managed = "managed",
        /// `cuMemCreate`: physical memory of the virtual memory management calls.
        Physical = "physical",
        /// `cuArrayCreate`, `cuArray3DCreate`, `cuMipmappedArrayCreate`.
        Array = "array",
        /// `cuMemHostAlloc`, `cuMemAllocHost`: pinned host memory, which is no GPU memory.
        Host = "host",
    }

    /// Direction of a copy, as far as the call names it.
    CopyDirection {
        HostToDevice = "host_to_device",
        DeviceToHost = "device_to_host",
        DeviceToDevice = "device_to_device",
        HostToHost = "host_to_host",
        /// Between two contexts' devices.
        Peer = "peer",
        /// The driver infers it from the addresses (`cuMemcpy`, batches).
        Unified = "unified",
        /// To, from or between CUDA arrays.
        Array = "array",
    }

    /// Family of a driver call.
    Call {
        Alloc = "alloc",
        Free = "free",
        Launch = "launch",
        GraphLaunch = "graph_launch",
        Memcpy = "memcpy",
        Memset = "memset",
        Sync = "sync",
        Context = "context",
        Init = "init",
    }

    /// What became of a probe.
    ProbeState {
        Attached = "attached",
        /// The library has no such symbol.
        Missing = "missing",
        /// The kernel refused it.
        Failed = "failed",
    }

    /// Why a call was seen in part or not at all.
    MissReason {
        /// The kernel was already running a program on that CPU.
        Recursion = "recursion",
        /// A return was seen without its entry: the call was under way when the probes were attached.
        ReturnUnmatched = "return_unmatched",
        /// An entry never returned: a signal handler jumped out of the call.
        Abandoned = "abandoned",
        /// User memory that the call points to could not be read.
        UserFault = "user_fault",
        /// Something was freed that had been allocated before the probes were attached.
        UnknownFree = "unknown_free",
        /// A batch or range was longer than the probes follow.
        Truncated = "truncated",
        /// An array has a format whose size does not follow from its descriptor.
        UnknownFormat = "unknown_format",
    }

    /// Why an event did not reach the ledger.
    DropReason {
        RingFull = "ring_full",
        /// The ring of exits and errors.
        ExitRingFull = "exit_ring_full",
        /// A map that the program needs was full.
        MapFull = "map_full",
        /// User space could not decode the record.
        Undecodable = "undecodable",
    }

    /// Why a cgroup has no name.
    CgroupMissReason {
        /// It was gone before it was looked for.
        Gone = "gone",
        /// The search ended before all cgroups were seen, because there are too many.
        Truncated = "truncated",
        /// Its name made room for others.
        Evicted = "evicted",
    }

    /// Why a utilisation sample was not used.
    SampleDropReason {
        /// Not newer than the one before.
        Stale = "stale",
        Future = "future",
        /// Over 100 percent.
        OutOfRange = "out_of_range",
        WithoutProcess = "without_process",
    }

    /// How a push ended.
    ExportOutcome {
        Success = "success",
        /// The receiver took the request and rejected some of its points.
        Partial = "partial",
        /// The receiver refused the request for good.
        Rejected = "rejected",
        /// Retries were used up.
        Failed = "failed",
    }

    /// Why points did not reach a receiver.
    ExportDropReason {
        /// The oldest request made room for a new one.
        QueueFull = "queue_full",
        /// The receiver refused them for good.
        Rejected = "rejected",
        /// Retries were used up.
        RetriesExhausted = "retries_exhausted",
        /// The agent stopped before they could be sent.
        Shutdown = "shutdown",
    }
}
