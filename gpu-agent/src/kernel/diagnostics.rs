//! What the programs say about themselves at debug level.

use std::fmt;

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::Log;

/// Passes the programs' messages to this process's log.
pub struct Diagnostics {
    logger: EbpfLogger<&'static dyn Log>,
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Diagnostics").finish_non_exhaustive()
    }
}

impl Diagnostics {
    /// Takes over the ring that the programs write their messages to.
    pub fn of(ebpf: &mut Ebpf) -> Option<Self> {
        match EbpfLogger::init(ebpf) {
            Ok(logger) => Some(Self { logger }),
            Err(error) => {
                tracing::warn!(%error, "the programs' own messages cannot be read");
                None
            }
        }
    }

    /// Writes what has been said since the last call.
    pub fn flush(&mut self) {
        self.logger.flush();
    }
}
