//! Runs the program with the variables of a container.

use crate::compose::{Stack, Variables, path_of};
use std::process::{Command, Stdio};

/// Output of the program, which must succeed.
pub(crate) fn run(line: &[&str], variables: &Variables) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_crawlway"));
    program.args(line).env_clear().envs(variables).current_dir(home.path()).stdin(Stdio::null());
    let ran = program.output().unwrap();
    let output = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{line:?} with {variables:?}: {output}");
    String::from_utf8(ran.stdout).unwrap()
}

/// As [`run`], with the settings file of these services at its path in the repository.
pub(crate) fn run_with_settings(stack: &Stack, line: &[&str], variables: &Variables) -> String {
    let settings = path_of(&format!("deploy/{}", stack.settings));
    run(&[line, &["--config", settings.to_str().unwrap()]].concat(), variables)
}

/// Fails the test if the program rejects this command line. `--help` succeeds only for a valid one.
pub(crate) fn assert_is_a_command(line: &[&str]) {
    run(&[line, &["--help"]].concat(), &Variables::new());
}

#[test]
#[should_panic(expected = "worker:paint")]
fn an_invalid_command_line_is_detected() {
    assert_is_a_command(&["up", "--only", "worker:paint"]);
}
