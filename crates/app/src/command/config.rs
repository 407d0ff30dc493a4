//! `crawlway config`: check or show the settings.

use super::up::{self, RoleArgs};
use crate::{
    config::{Origin, Problem, Problems, Renaming, Setting, Sources, as_toml, load, migrate, settings},
    failure::{AlreadyReported, ExitKind, UsageError},
    output::Output,
    sharing::RoleReport,
};
use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Check the settings, or show each with its source
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  crawlway config show > crawlway.toml      a settings file to start from

Exit codes: 0 success; 1 failure; 2 invalid settings.")]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Validate the settings, and list all problems
    #[command(after_help = "\
Examples:
  crawlway config check --config deploy/crawlway.toml
  CRAWLWAY_QUEUE__DEFAULTS__LEASE=5min crawlway config check --json
  crawlway config check --only search:crawl

The check covers everything that `up` validates before it connects to a server, for a process with
the same flags. With shared servers it also lists in how many processes each stage can run.

JSON:
  {\"ok\", \"problems\": [{\"source\": null | {\"kind\", …}, \"key\": null | text, \"problem\"}],
   \"roles\": [{\"role\", \"processes\": \"any\" | \"one\", \"owned\": [text]}]}
  sources as in `config show`; roles as in `up --only`.

Exit codes: 0 valid; 2 invalid.")]
    Check {
        #[command(flatten)]
        role: RoleArgs,
    },
    /// Show every setting with its value and its source; secrets are masked
    #[command(after_help = "\
Examples:
  crawlway config show > new.toml           a settings file to start from
  crawlway config show --json | jq '.settings[\"data_dir\"].source'

JSON:
  {\"file\": null | path, \"settings\": {KEY: {\"value\", \"source\": {\"kind\", …}}}}
  kind is default, file (with path and line), variable (with name) or flag (with name).

Exit codes: 0 success; 1 failure; 2 invalid settings.")]
    Show,
    /// Rename the keys of a settings file that was written for an older version
    #[command(after_help = "\
Examples:
  crawlway config migrate                            crawlway.toml in the working directory
  crawlway config migrate --config deploy/crawlway.toml --dry-run

Comments, order and values stay as they are. The old file is kept beside the new one, as FILE.old.
Variables such as CRAWLWAY_FETCH__GAP are not in a file: `crawlway config check` names their new names.

JSON:
  {\"file\", \"renamed\": [{\"line\", \"old\", \"new\"}], \"written\"}

Exit codes: 0 all keys have their new names; 1 the file could not be written; 2 it cannot be read or is not valid.")]
    Migrate {
        /// Only list what would be renamed
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(args: ConfigArgs, sources: &Sources, output: &mut Output) -> anyhow::Result<()> {
    match args.command {
        ConfigCommand::Check { role } => check(sources, &role, output),
        ConfigCommand::Show => show(sources, output),
        ConfigCommand::Migrate { dry_run } => migrate_file(sources, dry_run, output),
    }
}

#[derive(Serialize)]
struct Checked<'a> {
    ok: bool,
    problems: &'a [Problem],
    roles: &'a [RoleReport],
}

fn check(sources: &Sources, role: &RoleArgs, output: &mut Output) -> anyhow::Result<()> {
    let loaded = load(sources);
    let mut roles = Vec::new();
    let checked = loaded.and_then(|loaded| {
        let role = role.role(&loaded.config).map_err(|error| Problems(vec![Problem::plain(error.0)]))?;
        roles = RoleReport::all(&loaded.config, &role.modules());
        up::check(&role, &loaded.config).map(|()| loaded)
    });
    let loaded = match checked {
        Ok(loaded) => loaded,
        Err(problems) if output.is_json() => {
            output.json(&Checked { ok: false, problems: &problems.0, roles: &roles })?;
            output.flush()?;
            return Err(AlreadyReported(ExitKind::Usage).into());
        }
        Err(problems) => return Err(problems.into()),
    };
    if output.is_json() {
        return Ok(output.json(&Checked { ok: true, problems: &[], roles: &roles })?);
    }
    let settings = settings(&loaded);
    let set = settings.values().filter(|setting| *setting.source() != Origin::Default).count();
    let file = match &loaded.file {
        Some(file) => format!("`{}`", file.display()),
        None => "no config file".to_owned(),
    };
    output.line(&format!(
        "ok: {file}; {set} of {} settings are set, the others have their defaults",
        settings.len()
    ))?;
    if loaded.config.shares_anything() && !loaded.config.only_process {
        output.line("processes, by what they run (`up --only`):")?;
        for role in &roles {
            output.line(&role.line())?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Shown {
    file: Option<PathBuf>,
    settings: BTreeMap<String, Setting>,
}

fn show(sources: &Sources, output: &mut Output) -> anyhow::Result<()> {
    let loaded = load(sources)?;
    if output.is_json() {
        let settings = settings(&loaded);
        return Ok(output.json(&Shown { file: loaded.file, settings })?);
    }
    Ok(output.text(&as_toml(&loaded))?)
}

#[derive(Serialize)]
struct Migrated {
    file: PathBuf,
    renamed: Vec<Renaming>,
    written: bool,
}

fn migrate_file(sources: &Sources, dry_run: bool, output: &mut Output) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    let Some((file, text)) = sources.file(&mut problems) else {
        if problems.is_empty() {
            let text = "there is no `crawlway.toml` in the working directory; name the file with --config";
            return Err(UsageError(text.to_owned()).into());
        }
        return Err(Problems(problems).into());
    };
    let (migrated, renamed) = migrate(&text)
        .map_err(|error| UsageError(format!("cannot migrate `{}`: {error}", file.display())))?;
    let written = !dry_run && !renamed.is_empty();
    let old = PathBuf::from(format!("{}.old", file.display()));
    if written && old.exists() {
        let text = format!("`{}` exists, and would be overwritten; move it away first", old.display());
        return Err(UsageError(text).into());
    }
    if written {
        let cannot = || format!("cannot rewrite `{}`", file.display());
        // The backup is complete before the file is replaced.
        fs::copy(&file, &old).with_context(cannot)?;
        let new = PathBuf::from(format!("{}.new", file.display()));
        fs::write(&new, migrated).with_context(cannot)?;
        fs::set_permissions(&new, fs::metadata(&file).with_context(cannot)?.permissions())
            .with_context(cannot)?;
        fs::rename(&new, &file).with_context(cannot)?;
    }
    if output.is_json() {
        return Ok(output.json(&Migrated { file, renamed, written })?);
    }
    for Renaming { line, old, new } in &renamed {
        output.line(&format!("{}:{line}: `{old}` is now `{new}`", file.display()))?;
    }
    Ok(output.line(&match (renamed.len(), written) {
        (0, _) => format!("`{}` needs no change", file.display()),
        (n, true) => format!("{n} keys renamed; the old file is `{}.old`", file.display()),
        (n, false) => format!("{n} keys would be renamed"),
    })?)
}
