//! What setup does with a need, on machines that allow more or less.

use std::path::Path;

use super::*;

/// Needs a file, which a step makes.
struct NeedsFile<'a> {
    folder: &'a Path,
    step: Step,
}

impl Need for NeedsFile<'_> {
    fn name(&self) -> &'static str {
        "file"
    }

    fn purpose(&self) -> &'static str {
        "shows that it was made"
    }

    fn find(&self, _: &Machine) -> Result<String, String> {
        let made = self.folder.join("made");
        if made.exists() { Ok("made".to_owned()) } else { Err("not found".to_owned()) }
    }

    fn plan(&self, _: &Machine) -> Plan {
        Plan::Steps(vec![self.step.clone()])
    }
}

/// What came of a need for a file, with what is in the folder afterwards.
fn meet(root: bool, may_install: bool, step: Step) -> (State, bool) {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine { cache: folder.path().to_path_buf(), root, apt: true };
    let shell = Shell::new().unwrap();
    let need = NeedsFile { folder: folder.path(), step: step.within(folder.path()) };
    let outcome = Installer::new(&machine, &shell, may_install).meet(&need);
    // The folder's name is chosen at random; the rest of a remedy is exact.
    let state = match outcome.state {
        State::Missing { why, remedies } => {
            let name = folder.path().to_string_lossy().into_owned();
            let hide = |text: String| text.replace(&name, "FOLDER");
            State::Missing { why: hide(why), remedies: remedies.into_iter().map(hide).collect() }
        }
        met => met,
    };
    (state, folder.path().join("made").exists())
}

fn missing(why: &str, remedy: &str) -> State {
    State::Missing { why: why.to_owned(), remedies: vec![remedy.to_owned()] }
}

#[test]
fn what_is_missing_is_installed_and_looked_for_again() {
    let (state, made) = meet(false, true, Step::new("touch", ["made"]));
    assert_eq!(state, State::Installed("made".to_owned()));
    assert!(made);
}

#[test]
fn without_root_a_step_for_root_is_only_named() {
    let (state, made) = meet(false, true, Step::new("touch", ["made"]).for_root());
    assert_eq!(state, missing("not found", "mkdir -p FOLDER && cd FOLDER && sudo touch made"));
    assert!(!made);
}

#[test]
fn a_check_installs_nothing_and_says_what_would() {
    let (state, made) = meet(true, false, Step::new("touch", ["made"]));
    assert_eq!(state, missing("not found", "cargo xtask setup"));
    assert!(!made);
}

#[test]
fn a_step_that_fails_is_told() {
    let (state, _) = meet(true, true, Step::new("false", ["now"]));
    let State::Missing { why, .. } = state else { panic!("{state:?}") };
    assert!(why.starts_with("failed to run `mkdir -p FOLDER && cd FOLDER && false now`"), "{why}");
}

#[test]
fn a_step_that_helps_nothing_is_told() {
    let (state, _) = meet(true, true, Step::new("true", ["now"]));
    assert_eq!(
        state,
        missing("after its installation: not found", "mkdir -p FOLDER && cd FOLDER && true now")
    );
}
