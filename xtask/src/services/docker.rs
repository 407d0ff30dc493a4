//! Servers as containers, where they are not installed and cannot be, but a Docker engine answers.
//!
//! Not run: written on a machine without an engine, so that its tests are of the decision and of the command line alone. Tests
//! that start servers of their own to kill them need the programs themselves, and fail with a container.

use std::process::{Command, Stdio};

use super::room::Room;

/// A server as an image has it. The tags are those of `deploy/compose.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Its name and tag.
    pub(super) reference: &'static str,
    /// The ports in the container, in the order of the room's.
    pub(super) ports: &'static [u16],
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// What the container runs, if not what it does by itself.
    pub(super) arguments: Vec<&'static str>,
}

/// How a server comes to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is installed.
    Installed,
    /// Its packages are installed first.
    Packages,
    /// It runs as a container.
    Container,
    /// Not at all: people are told what to install.
    Advice,
}

/// What is installed is preferred, since it starts at once; an engine is asked for only when it is needed.
pub(super) fn way(is_there: bool, can_install: bool, engine_answers: impl Fn() -> bool) -> Way {
    match (is_there, can_install) {
        (true, _) => Way::Installed,
        (false, true) => Way::Packages,
        (false, false) if engine_answers() => Way::Container,
        (false, false) => Way::Advice,
    }
}

/// Whether there is an engine, and we may use it.
pub(super) fn engine_answers() -> bool {
    let info = Command::new("docker")
        .args(["info", "--format", "{{.ServerVersion}}"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    info.is_ok_and(|status| status.success())
}

/// Runs a container in the foreground. It gets the signals that this command gets, and is removed when it ends.
pub(super) fn command(image: &Image, room: &Room) -> Command {
    let mut command = Command::new("docker");
    command.args(arguments(image, &name(room), &room.ports)).current_dir(&room.data);
    command
}

/// Removes a container that was left behind, as by a kill.
pub(super) fn remove(room: &Room) {
    let _ = Command::new("docker")
        .args(["rm", "--force", "--volumes", &name(room)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// The name of the folder is nobody else's, and so is that of the container.
fn name(room: &Room) -> String {
    let folder = room.data.file_name().unwrap_or_default().to_string_lossy();
    format!("crawlway-test-{folder}")
}

fn arguments(image: &Image, name: &str, ports: &[u16]) -> Vec<String> {
    let mut arguments: Vec<String> = ["run", "--rm", "--name", name].map(str::to_owned).into();
    for (inside, outside) in image.ports.iter().zip(ports) {
        arguments.extend(["--publish".to_owned(), format!("127.0.0.1:{outside}:{inside}")]);
    }
    for (variable, value) in image.environment {
        arguments.extend(["--env".to_owned(), format!("{variable}={value}")]);
    }
    arguments.push(image.reference.to_owned());
    arguments.extend(image.arguments.iter().map(|&argument| argument.to_owned()));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_for_who_can_neither_find_nor_install() {
        assert_eq!(way(true, false, || panic!("nobody need be asked")), Way::Installed);
        assert_eq!(way(false, true, || panic!("nobody need be asked")), Way::Packages);
        assert_eq!(way(false, false, || true), Way::Container);
        assert_eq!(way(false, false, || false), Way::Advice);
    }

    #[test]
    fn a_container_is_published_on_loopback_only_and_removed_at_its_end() {
        let image = Image {
            reference: "example:1.2",
            ports: &[5672, 15672],
            environment: &[("AUTH", "trust it")],
            arguments: vec!["serve", "--fast"],
        };
        assert_eq!(
            arguments(&image, "crawlway-test-x", &[40001, 40002, 40003]),
            [
                "run",
                "--rm",
                "--name",
                "crawlway-test-x",
                "--publish",
                "127.0.0.1:40001:5672",
                "--publish",
                "127.0.0.1:40002:15672",
                "--env",
                "AUTH=trust it",
                "example:1.2",
                "serve",
                "--fast",
            ]
        );
    }

    #[test]
    fn images_are_those_that_are_deployed() {
        let compose = include_str!("../../../deploy/compose.yaml");
        for server in super::super::SERVERS {
            let Some(image) = server.image(false) else { continue };
            let line = format!("image: {}\n", image.reference);
            assert!(compose.contains(&line), "`{}` is not in deploy/compose.yaml", image.reference);
            assert!(image.ports.len() <= server.ports(), "{}", server.name());
        }
    }
}
