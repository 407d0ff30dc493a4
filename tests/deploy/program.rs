//! Runs the program with the variables of a container.

use crate::compose::{Stack, Variables, path_of};
use std::process::{Command, Stdio};

/// What the program said when it ended well.
pub(crate) fn run(line: &[&str], variables: &Variables) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_crawlway"));
    program.args(line).env_clear().envs(variables).current_dir(home.path()).stdin(Stdio::null());
    let ran = program.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{line:?} with {variables:?}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

/// As [`run`], with the settings of these containers, which are elsewhere in one.
pub(crate) fn run_with_settings(stack: &Stack, line: &[&str], variables: &Variables) -> String {
    let settings = path_of(&format!("deploy/{}", stack.settings));
    run(&[line, &["--config", settings.to_str().unwrap()]].concat(), variables)
}

/// Ends the test if the program does not take this command line. Help is given only for one that is right so far.
pub(crate) fn assert_is_a_command(line: &[&str]) {
    run(&[line, &["--help"]].concat(), &Variables::new());
}

#[test]
#[should_panic(expected = "worker:paint")]
fn a_command_line_that_is_wrong_is_found() {
    assert_is_a_command(&["up", "--only", "worker:paint"]);
}
