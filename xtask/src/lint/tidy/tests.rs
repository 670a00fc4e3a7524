//! Each rule, broken and kept.

use super::*;

/// The findings in a file, as they are printed.
fn findings(path: &str, text: &str) -> Vec<String> {
    check_file(path, text.as_bytes()).iter().map(ToString::to_string).collect()
}

#[test]
fn a_module_begins_by_saying_what_it_is_for() {
    assert_eq!(findings("xtask/src/a.rs", "//! Says it.\nfn a() {}\n"), [""; 0]);
    assert_eq!(
        findings("xtask/src/a.rs", "use std::fmt;\n//! Too late.\n"),
        ["xtask/src/a.rs: does not begin with a `//!` line that says what it is for"]
    );
    assert_eq!(findings("xtask/src/a/tests.rs", "use super::*;\n"), [""; 0]);
}

#[test]
fn a_module_lies_beside_its_folder() {
    assert_eq!(
        findings("xtask/src/a/mod.rs", "//! A.\n"),
        ["xtask/src/a/mod.rs: belongs beside its folder, as `name.rs`"]
    );
}

#[test]
fn a_long_source_file_is_found_and_a_long_table_is_not() {
    let text = format!("//! Long.\n{}", "\n".repeat(600));
    assert_eq!(findings("a.rs", &text), ["a.rs: has more than 600 lines: split it by concept"]);
    assert_eq!(findings("a.rs", &text[..text.len() - 1]), [""; 0]);
    assert_eq!(findings("a.md", &text), [""; 0]);
}

#[test]
fn a_large_file_is_found() {
    assert_eq!(check_file("a.bin", &vec![0xff; MOST_BYTES]), []);
    assert_eq!(findings("a.md", &" ".repeat(MOST_BYTES + 1)), ["a.md: is larger than 1 MiB"]);
}

#[test]
fn product_code_does_not_unwrap_before_its_tests() {
    let text = "//! A.\nfn a() { b().unwrap() }\n// .unwrap() in words\n    c.expect(\"c\");\n\
        #[cfg(test)]\nmod tests { fn t() { a().unwrap() } }\n";
    let rule = "may panic: return an error, or move it into a test";
    assert_eq!(
        findings("gpu-agent/src/a.rs", text),
        [format!("gpu-agent/src/a.rs:2: {rule}"), format!("gpu-agent/src/a.rs:4: {rule}")]
    );
    assert_eq!(findings("gpu-agent/src/a/tests.rs", text), [""; 0]);
    assert_eq!(
        findings("gpu-agent/src/fake.rs", "//! A.\n#![cfg(test)]\nfn a() { b().unwrap() }\n"),
        [""; 0]
    );
    let constants = "//! A.\npub(crate) const A: T = t(1).expect(\"1\");\nconst fn a() { b().unwrap() }\n";
    assert_eq!(findings("gpu-agent/src/a.rs", constants), [format!("gpu-agent/src/a.rs:3: {rule}")]);
    assert_eq!(findings("xtask/src/a.rs", text), [""; 0]);
}

#[test]
fn unfinished_work_is_found_as_a_word() {
    let line = concat!("a TO", "DO: later\nto", "do", "!()\nmastODON XXXL\n");
    assert_eq!(findings("a.md", line), ["a.md:1: marks unfinished work", "a.md:2: marks unfinished work"]);
}

#[test]
fn paths_of_one_machine_are_found() {
    let text = concat!("see /wo", "rk/main\nframework/main\n`src/wo", "rk/main`\n(/ro", "ot/.cargo)\n");
    let rule = "names a path of one machine";
    assert_eq!(findings("a.md", text), [format!("a.md:1: {rule}"), format!("a.md:4: {rule}")]);
}

#[test]
fn package_hosts_are_found_where_people_write() {
    let text = concat!("https", "://index.crates.invalid/\nhttps://github.com/deb.rs\n");
    assert_eq!(findings("a.md", text), ["a.md:1: names a package registry's host"]);
    assert_eq!(findings("Cargo.lock", text), [""; 0]);
}

#[test]
fn issue_numbers_are_found() {
    let text = concat!("see iss", "ue #12\nIss", "ue 3 too\nissue a warning\n");
    let rule = "names an issue: say what it is about";
    assert_eq!(findings("a.md", text), [format!("a.md:1: {rule}"), format!("a.md:2: {rule}")]);
}
