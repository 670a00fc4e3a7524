//! Something that a command needs on the machine, and what setup did about it.

use std::collections::HashSet;

use xshell::Shell;

use super::machine::Machine;
use super::step::Step;

/// Something that a command needs.
pub(crate) trait Need {
    fn name(&self) -> &'static str;

    /// What it is for, to complete "… which".
    fn purpose(&self) -> &'static str;

    /// Says what is there, or why that will not do.
    fn find(&self, machine: &Machine) -> Result<String, String>;

    /// How to get it on this machine. Only asked when [`Need::find`] found nothing.
    fn plan(&self, machine: &Machine) -> Plan;
}

/// How to get something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Commands that setup may run, some of them as root only.
    Steps(Vec<Step>),
    /// What a person has to do: setup does not know this machine's package manager.
    ByHand(Vec<String>),
}

/// What came of a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    pub(crate) state: State,
}

/// Whether a need is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Present(String),
    Installed(String),
    Missing { why: String, remedies: Vec<String> },
}

impl Outcome {
    pub(crate) fn is_met(&self) -> bool {
        !matches!(self.state, State::Missing { .. })
    }
}

/// Meets needs one after the other.
pub(crate) struct Installer<'a> {
    machine: &'a Machine,
    shell: &'a Shell,
    /// Whether anything may be installed at all.
    may_install: bool,
    /// Steps that ran and need not run again, such as fetching the package lists.
    done: HashSet<String>,
}

impl<'a> Installer<'a> {
    pub(crate) fn new(machine: &'a Machine, shell: &'a Shell, may_install: bool) -> Self {
        Self { machine, shell, may_install, done: HashSet::new() }
    }

    /// Finds what is needed, or installs it and looks again.
    pub(crate) fn meet(&mut self, need: &dyn Need) -> Outcome {
        let state = match need.find(self.machine) {
            Ok(found) => State::Present(found),
            Err(why) => self.install(need, why),
        };
        Outcome { name: need.name(), purpose: need.purpose(), state }
    }

    fn install(&mut self, need: &dyn Need, why: String) -> State {
        let steps = match need.plan(self.machine) {
            Plan::ByHand(remedies) => return State::Missing { why, remedies },
            Plan::Steps(steps) => steps,
        };
        let by_root = self.machine.root;
        let lines: Vec<_> = steps.iter().map(|step| step.command_line(by_root)).collect();
        let missing = |why| State::Missing { why, remedies: lines.clone() };
        if !by_root && steps.iter().any(Step::needs_root) {
            return missing(why);
        }
        if !self.may_install {
            return State::Missing { why, remedies: vec!["cargo xtask setup".to_owned()] };
        }

        println!("{}: {why}; installing it ({})", need.name(), need.purpose());
        for (step, line) in steps.iter().zip(&lines) {
            if self.done.contains(line) {
                continue;
            }
            println!("  $ {line}");
            if let Err(error) = step.run(self.shell) {
                return missing(format!("{error:#}"));
            }
            self.done.insert(line.clone());
        }
        match need.find(self.machine) {
            Ok(found) => State::Installed(found),
            Err(why) => missing(format!("after its installation: {why}")),
        }
    }
}

#[cfg(test)]
mod tests;
