//! `crawlway completions`: completion scripts for shells.

use super::CommandLine;
use crate::output::Output;
use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use serde_json::json;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples, with the usual place of the script:
  bash        crawlway completions bash > ~/.local/share/bash-completion/completions/crawlway
  zsh         crawlway completions zsh > ~/.zfunc/_crawlway
              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish        crawlway completions fish > ~/.config/fish/completions/crawlway.fish
  elvish      crawlway completions elvish > ~/.config/elvish/lib/crawlway.elv
              with `use crawlway` in ~/.config/elvish/rc.elv
  powershell  crawlway completions powershell >> $PROFILE

It takes effect in the next shell. Print it again after an update.

JSON:
  {\"shell\", \"script\"}

Exit codes: 0 success; 1 failure; 2 unknown shell.")]
pub(super) struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, output: &mut Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut CommandLine::command(), "crawlway", &mut script);
    let script = String::from_utf8(script).context("the script is not text")?;
    if output.is_json() {
        return Ok(output.json(&json!({ "shell": args.shell.to_string(), "script": script }))?);
    }
    Ok(output.text(&script)?)
}
