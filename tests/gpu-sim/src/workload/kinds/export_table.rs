//! The workload that gets its contexts through private functions, which nobody who watches the exported ones sees.
//!
//! From the outside it cannot be told which device its calls use when it has more than one.

use std::ffi::c_void;

use super::Result;
use crate::{
    truth::CallClass,
    workload::{
        Options, hold,
        log::UNKNOWN,
        pace::Pace,
        phase::{Phases, wait_for},
        session::{Process, Session},
    },
};

/// Identifies the private table of the double.
static TABLE_ID: [u8; 16] = *b"gpu-sim-private\0";

/// The private table, as the double lays it out.
#[repr(C)]
struct Table {
    size: usize,
    retain_and_set_current: unsafe extern "C" fn(*mut u64, i32) -> u32,
}

/// Works on several devices in turn.
pub(in crate::workload) fn run(process: &Process, options: &Options, phases: &mut Phases) -> Result {
    let mut table: *const c_void = std::ptr::null();
    // SAFETY: the id outlives the call, which stores to the variable.
    let code = unsafe { (process.api.get_export_table)(&raw mut table, &raw const TABLE_ID) };
    process.check(UNKNOWN, CallClass::Query, "cuGetExportTable", code)?;
    // SAFETY: the call succeeded, so the pointer leads to a constant table of this layout.
    let table = unsafe { &*table.cast::<Table>() };
    let devices = if options.devices.is_empty() { vec![0] } else { options.devices.clone() };
    let mut sessions = Vec::new();
    for (ordinal, number) in devices.iter().zip(0..) {
        let context = enter(process, table, *ordinal)?;
        sessions.push(Session::with_context(process, number, *ordinal, context, options)?);
    }
    phases.reach("ready")?;
    wait_for(options.wait_before_work.as_deref());
    let mut held = Vec::new();
    for session in &sessions {
        enter(process, table, session.ordinal)?;
        held.push(session.alloc((24 << 20) + u64::from(session.number))?);
    }
    let mut pace = Pace::new(options, 100, None);
    while pace.next() {
        for session in &sessions {
            enter(process, table, session.ordinal)?;
            let buffer = session.alloc(1 << 20)?;
            session.launch(0)?;
            session.synchronize()?;
            session.free(buffer)?;
        }
    }
    phases.reach("worked")?;
    hold(options);
    for (session, address) in sessions.iter().zip(held) {
        enter(process, table, session.ordinal)?;
        session.free(address)?;
    }
    Ok(())
}

/// Makes the primary context of a device current, unseen.
fn enter(process: &Process, table: &Table, ordinal: i32) -> Result<u64> {
    debug_assert!(table.size >= size_of::<Table>());
    let mut context = 0;
    // SAFETY: the call stores to the variable.
    let code = unsafe { (table.retain_and_set_current)(&raw mut context, ordinal) };
    process.check(UNKNOWN, CallClass::Context, "the private function for contexts", code)?;
    Ok(context)
}
