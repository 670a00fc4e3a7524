//! Every name of the list is exported, once, and found by cuGetProcAddress.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_void},
};

use super::library::{Library, call};

const SYMBOLS: &str = include_str!("../../libcuda/symbols.txt");

fn symbols() -> impl Iterator<Item = &'static str> {
    SYMBOLS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn every_listed_symbol_is_exported_at_an_address_of_its_own() {
    let library = Library::load();
    let mut names: BTreeMap<usize, &str> = BTreeMap::new();
    for name in symbols() {
        let address = library.address(name) as usize;
        assert_ne!(address, 0, "{name} is not exported");
        if let Some(other) = names.insert(address, name) {
            panic!("{name} and {other} share an address");
        }
    }
    assert!(names.len() > 250, "the list has {} names", names.len());
}

#[test]
fn no_symbol_is_exported_that_is_not_listed() {
    let output = std::process::Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(super::support::libcuda())
        .output()
        .expect("nm");
    let text = String::from_utf8(output.stdout).expect("names");
    let mut exported: Vec<&str> = text.lines().map(|line| line.split('@').next().unwrap_or(line)).collect();
    let mut listed: Vec<&str> = symbols().collect();
    exported.sort_unstable();
    listed.sort_unstable();
    assert_eq!(exported, listed);
}

#[test]
fn proc_addresses_are_those_of_the_exported_entry_points() {
    let library = Library::load();
    let look_up = |symbol: &str, version: i32, flags: u64| {
        let symbol = CString::new(symbol).expect("name");
        let mut address: *mut c_void = std::ptr::null_mut();
        let code = call!(library, "cuGetProcAddress_v2"(
            *const i8 = symbol.as_ptr().cast(), *mut *mut c_void = &raw mut address, i32 = version, u64 = flags,
            *mut u32 = std::ptr::null_mut(),
        ));
        assert_eq!(code, 0, "{}", symbol.to_string_lossy());
        address
    };
    for (symbol, version, flags, exported) in [
        ("cuInit", 13_000, 0, "cuInit"),
        ("cuMemAlloc", 13_000, 0, "cuMemAlloc_v2"),
        ("cuMemFree", 13_000, 2, "cuMemFree_v2"),
        ("cuLaunchKernel", 13_000, 0, "cuLaunchKernel"),
        ("cuLaunchKernel", 13_000, 2, "cuLaunchKernel_ptsz"),
        ("cuMemcpyHtoDAsync", 13_000, 2, "cuMemcpyHtoDAsync_v2_ptsz"),
        ("cuMemcpy", 13_000, 2, "cuMemcpy_ptds"),
        ("cuMemcpyBatchAsync", 12_080, 0, "cuMemcpyBatchAsync"),
        ("cuMemcpyBatchAsync", 13_000, 2, "cuMemcpyBatchAsync_v2_ptsz"),
        ("cuCtxCreate", 12_000, 0, "cuCtxCreate_v3"),
    ] {
        assert_eq!(look_up(symbol, version, flags), library.address(exported), "{symbol} {version} {flags}");
    }
    // Each plain name leads to an exported address in every version.
    for name in symbols().filter(|name| !name.contains("_v") && !name.contains("_pt")) {
        let address = look_up(name, 13_000, 0);
        assert!(symbols().any(|other| library.address(other) == address), "{name}");
    }
}

#[test]
fn a_missing_symbol_says_so() {
    let library = Library::load();
    let (mut address, mut status) = (std::ptr::null_mut::<c_void>(), 99_u32);
    let code = call!(library, "cuGetProcAddress_v2"(
        *const i8 = c"cuNoSuchCall".as_ptr().cast(), *mut *mut c_void = &raw mut address, i32 = 13_000, u64 = 0,
        *mut u32 = &raw mut status,
    ));
    assert_eq!((code, status, address), (0, 1, std::ptr::null_mut()));
    let code = call!(library, "cuGetProcAddress"(
        *const i8 = c"cuNoSuchCall".as_ptr().cast(), *mut *mut c_void = &raw mut address, i32 = 13_000, u64 = 0,
    ));
    assert_eq!(code, 500);
}
