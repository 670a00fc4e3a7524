//! The agent's configuration: one typed structure, filled from flags, environment, a TOML file and defaults.
//!
//! Every key is described once, in `schema`: its name, its help, what it accepts and the field it fills.
//! The flag, the `GPU_AGENT_*` variable, the TOML reader, `--print-config` and the check of the
//! documentation all follow from that description.

mod error;
mod file;
mod flags;
mod kind;
mod load;
mod schema;
mod settings;
mod tenants;
mod units;
mod value;

pub use self::{
    error::{ConfigError, ConfigErrors, Origin},
    file::ConfigFile,
    flags::Flags,
    load::{Loaded, Setting, load, process_environment, unknown_variables},
    schema::{KeyInfo, keys},
    settings::{
        Config, Feature, Log, LogFormat, LogLevel, MapSizes, Metrics, Nvml, Otlp, OtlpProtocol, OtlpTls,
        Probe,
    },
    units::{parse_bytes, parse_duration, render_bytes, render_duration},
};

#[cfg(test)]
mod tests;
