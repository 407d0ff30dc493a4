//! Servers as Docker containers, where they are not installed and cannot be.
//!
//! Tests that start private servers need the installed programs, and fail with containers.

use std::process::{Command, Stdio};

use super::instance::Instance;

/// Docker image of a server, with the tags of `deploy/compose.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Name and tag.
    pub(super) reference: &'static str,
    /// Ports in the container, in the order of the ports of the instance.
    pub(super) ports: &'static [u16],
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// Command of the container; empty for its default.
    pub(super) arguments: Vec<&'static str>,
}

/// Whether a Docker engine is available.
pub(super) fn is_available() -> bool {
    let info = Command::new("docker")
        .args(["info", "--format", "{{.ServerVersion}}"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    info.is_ok_and(|status| status.success())
}

/// Command that runs a container in the foreground. Docker forwards signals to it, and removes it at its end.
pub(super) fn command(image: &Image, instance: &Instance) -> Command {
    let mut command = Command::new("docker");
    command.args(arguments(image, &name(instance), &instance.ports)).current_dir(&instance.data);
    command
}

/// Removes a container that was left behind, for example after a kill.
pub(super) fn remove(instance: &Instance) {
    let _ = Command::new("docker")
        .args(["rm", "--force", "--volumes", &name(instance)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Name of the container, unique like the data directory.
fn name(instance: &Instance) -> String {
    let folder = instance.data.file_name().unwrap_or_default().to_string_lossy();
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
    fn a_container_is_published_on_loopback_and_removed_at_its_end() {
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
    fn images_match_the_deployment() {
        let compose = include_str!("../../../deploy/compose.yaml");
        for server in super::super::SERVERS {
            let Some(image) = server.image(false) else { continue };
            let line = format!("image: {}\n", image.reference);
            assert!(compose.contains(&line), "`{}` is not in deploy/compose.yaml", image.reference);
            assert!(image.ports.len() <= server.ports(), "{}", server.name());
        }
    }
}
