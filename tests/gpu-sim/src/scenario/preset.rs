//! The machines that are built in.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What `gpu-sim create --preset` calls it.
    pub name: &'static str,
    /// The scenario file.
    pub text: &'static str,
}

/// Every built-in scenario.
pub const PRESETS: &[Preset] = &[
    Preset { name: "1xT4", text: include_str!("../../presets/1xT4.toml") },
    Preset { name: "2xA10", text: include_str!("../../presets/2xA10.toml") },
    Preset { name: "8xH100-nvswitch", text: include_str!("../../presets/8xH100-nvswitch.toml") },
    Preset {
        name: "8xV100-hybrid-cube-mesh",
        text: include_str!("../../presets/8xV100-hybrid-cube-mesh.toml"),
    },
];
