//! Parser for `deploy/Dockerfile`: stages and their instructions.

use crate::compose::read;

/// Build stage: from one `FROM` to the next.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Base image.
    pub(crate) base: String,
    instructions: Vec<(String, String)>,
}

impl Stage {
    /// Arguments of all instructions with this name.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let named = self.instructions.iter().filter(|(instruction, _)| instruction == name);
        named.map(|(_, rest)| rest.as_str()).collect()
    }

    /// Arguments of the only instruction with this name.
    pub(crate) fn only(&self, name: &str) -> &str {
        let [one] = self.all(name)[..] else { panic!("one {name} is expected in {self:?}") };
        one
    }
}

pub(crate) fn stages() -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    let text = read("deploy/Dockerfile");
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    for line in code.join("\n").replace("\\\n", " ").lines().filter(|line| !line.trim().is_empty()) {
        let (name, rest) = line.split_once(' ').unwrap();
        let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        match (name, stages.last_mut()) {
            ("FROM", _) => {
                let base = rest.split(' ').next().unwrap().to_owned();
                stages.push(Stage { base, instructions: Vec::new() });
            }
            (_, Some(stage)) => stage.instructions.push((name.to_owned(), rest)),
            (_, None) => panic!("`{line}` is before the first FROM"),
        }
    }
    stages
}
