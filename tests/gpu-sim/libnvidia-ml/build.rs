//! Gives the library the name under which the driver's library is known to programs.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
