//! Every machine that the choice has to tell apart.

use super::*;

const V1_96: Version = Version { major: 1, minor: 96 };
const V1_97: Version = Version { major: 1, minor: 97 };

fn nightly() -> Compiler {
    Compiler {
        origin: Origin::Rustup("nightly-x86_64-unknown-linux-gnu".to_owned()),
        rustc: "/rustup/nightly/bin/rustc".into(),
        cargo: Some("/rustup/nightly/bin/cargo".into()),
        version: V1_97,
        nightly: true,
        llvm_major: 23,
        sources: Sources::Of(V1_97),
    }
}

fn stable() -> Compiler {
    Compiler {
        origin: Origin::Rustup("stable-x86_64-unknown-linux-gnu".to_owned()),
        version: V1_96,
        nightly: false,
        llvm_major: 22,
        sources: Sources::Of(V1_96),
        ..nightly()
    }
}

fn debian() -> Compiler {
    Compiler {
        origin: Origin::System,
        rustc: "/usr/bin/rustc".into(),
        cargo: Some("/usr/bin/cargo".into()),
        version: V1_96,
        nightly: false,
        llvm_major: 22,
        sources: Sources::Of(V1_96),
    }
}

fn linker(llvm_major: u32) -> Linker {
    Linker { path: format!("/linker-{llvm_major}").into(), llvm_major: Some(llvm_major) }
}

/// The origin and linker of a ready choice.
fn ready(compilers: Vec<Compiler>, linkers: Vec<Linker>) -> (Origin, PathBuf) {
    match choose(&Found { compilers, linkers }) {
        Choice::Ready(toolchain) => (toolchain.origin, toolchain.linker),
        other => panic!("expected a toolchain, got {other:?}"),
    }
}

#[test]
fn a_nightly_with_sources_and_linker_goes_first() {
    let chosen = ready(vec![debian(), stable(), nightly()], vec![linker(22), linker(23)]);
    assert_eq!(chosen, (nightly().origin, "/linker-23".into()));
}

#[test]
fn a_fitting_linker_outweighs_the_order_of_preference() {
    let chosen = ready(vec![nightly(), debian()], vec![linker(22)]);
    assert_eq!(chosen, (Origin::System, "/linker-22".into()));
}

#[test]
fn rustup_goes_before_the_distribution() {
    let chosen = ready(vec![debian(), stable()], vec![linker(22)]);
    assert_eq!(chosen, (stable().origin, "/linker-22".into()));
}

#[test]
fn a_nightly_without_sources_is_passed_over() {
    let bare = Compiler { sources: Sources::Absent, ..nightly() };
    let chosen = ready(vec![bare, debian()], vec![linker(22), linker(23)]);
    assert_eq!(chosen, (Origin::System, "/linker-22".into()));
}

#[test]
fn sources_of_another_release_are_not_mixed_in() {
    let mixed = Compiler { sources: Sources::Of(V1_96), ..nightly() };
    let choice = choose(&Found { compilers: vec![mixed], linkers: vec![linker(23)] });
    let Choice::NeedsCompiler { refused } = choice else { panic!("{choice:?}") };
    assert_eq!(refused[0].why, Lack::SourcesOfItsVersion(V1_96));
    assert_eq!(
        refused[0].to_string(),
        "rustup toolchain `nightly-x86_64-unknown-linux-gnu` (1.97) has sources of another release, 1.96"
    );
}

#[test]
fn a_linker_of_another_or_unknown_llvm_does_not_fit() {
    let unknown = Linker { path: "/linker".into(), llvm_major: None };
    let seen = vec![linker(21), unknown];
    let choice = choose(&Found { compilers: vec![debian()], linkers: seen.clone() });
    assert_eq!(choice, Choice::NeedsLinker { compiler: debian(), seen });
}

#[test]
fn each_refused_compiler_says_what_it_lacks() {
    let old = Compiler {
        version: Version { major: 1, minor: 85 },
        sources: Sources::Of(Version { major: 1, minor: 85 }),
        ..debian()
    };
    let without_cargo = Compiler { cargo: None, ..debian() };
    let choice = choose(&Found { compilers: vec![old, without_cargo], linkers: vec![linker(22)] });
    let Choice::NeedsCompiler { refused } = choice else { panic!("{choice:?}") };
    let whys: Vec<_> = refused.into_iter().map(|refused| refused.why).collect();
    assert_eq!(whys, [Lack::TooOld, Lack::Cargo]);
}

#[test]
fn an_empty_machine_needs_a_compiler() {
    assert_eq!(choose(&Found::default()), Choice::NeedsCompiler { refused: Vec::new() });
}

#[test]
fn versions_are_read_with_and_without_a_channel() {
    assert_eq!(Version::parse("1.96.0\n"), Some(V1_96));
    assert_eq!(Version::parse("1.97.0-nightly"), Some(V1_97));
    assert_eq!(Version::parse("nightly"), None);
}
