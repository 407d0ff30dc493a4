//! Documents of the project, with their code blocks and commands.

use std::{fs, path::PathBuf};

/// Markdown document.
pub(crate) struct Document {
    /// Path from the root of the project.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A code block.
pub(crate) struct Block {
    /// Language after the opening fence, such as `sh`.
    pub(crate) language: String,
    /// Number of the line after the opening fence, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A command as a reader would type it.
pub(crate) struct Command {
    pub(crate) line: usize,
    /// Command with its comment, if it has one.
    pub(crate) text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Document {
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.to_owned(), text }
    }

    /// All documents at the root and in `docs/`.
    pub(crate) fn all() -> Vec<Self> {
        let mut paths = Vec::new();
        for folder in ["", "docs/"] {
            for entry in fs::read_dir(root().join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".md") {
                    paths.push(format!("{folder}{name}"));
                }
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (index, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), open) {
                (Some(language), false) => {
                    let language = language.trim().to_owned();
                    blocks.push(Block { language, line: index + 2, text: String::new() });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => {
                    let block = blocks.last_mut().unwrap();
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, false) => {}
            }
        }
        blocks
    }

    /// The commands of all `sh` blocks, in order.
    pub(crate) fn commands(&self) -> Vec<Command> {
        self.blocks().iter().filter(|block| block.language == "sh").flat_map(Block::commands).collect()
    }
}

impl Block {
    fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut continues = false;
        for (index, line) in self.text.lines().enumerate() {
            if continues {
                let command = commands.last_mut().unwrap();
                command.text.push('\n');
                command.text.push_str(line);
            } else if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            } else {
                commands.push(Command { line: self.line + index, text: line.trim_start().to_owned() });
            }
            continues = line.ends_with('\\');
        }
        commands
    }
}

impl Command {
    /// Exit code in the comment, 0 without one. It is 22 (curl) for a comment with a status that is an error.
    pub(crate) fn exit_code(&self) -> i32 {
        if let Some((_, code)) = self.text.split_once("exit code ") {
            let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
            return digits.parse().unwrap_or_else(|_| panic!("an exit code is a number: {}", self.text));
        }
        if self.text.contains("# status 4") { 22 } else { 0 }
    }

    /// Whether the command runs until a signal, in the background of the next commands.
    pub(crate) fn is_background(&self) -> bool {
        let command = self.without_comment();
        command.ends_with('&')
            || (command.contains("crawlway up")
                || command.contains("-- demo")
                || command.contains("crawlway demo"))
                && !command.contains("--exit")
                && !command.contains("--help")
    }

    /// Command without its comment.
    pub(crate) fn without_comment(&self) -> &str {
        self.text.split(" # ").next().unwrap_or_default().trim_end()
    }
}
