//! Settings reference, generated from the file of defaults: a table per section.

use std::fmt::Write;

const BEFORE: &str = "\
# Configuration

<!-- Made by `cargo xtask docs` from config/crawlway.toml. Change that file, not this one. -->

Everything has a default, so that nothing has to be configured. Later sources win over earlier ones:

1. the defaults, [config/crawlway.toml](../config/crawlway.toml), which are built into the program;
2. a file: the one named by `--config FILE`, else by `CRAWLWAY_CONFIG`, else `crawlway.toml` in the working directory;
3. variables, whose names are in the tables below;
4. flags: `--data` and `--gateway` of every command, and those of a command such as `crawl --min-delay`.

```sh
crawlway config check                               # finds every mistake, and names file, line and key
crawlway config show                                # every setting, and where its value comes from
CRAWLWAY_FETCH__MIN_DELAY=2s crawlway config show --json  # the same for programs
CRAWLWAY_FETCH__MIN_DELAY=soon crawlway config check      # exit code 2: the value is no duration
```

";

const AFTER: &str = "
## What is printed of secrets

Values of keys that name a token, a password or another secret, and the password within a URL, are printed as `***`,
in `config show` as in errors and logs.
";

/// Section of the file.
#[derive(Debug, Default, PartialEq)]
struct Section {
    /// Name such as `broker.embedded`; empty at the start of the file.
    name: String,
    /// Comment above the section.
    about: Vec<String>,
    settings: Vec<Setting>,
}

#[derive(Debug, PartialEq)]
struct Setting {
    key: String,
    default: String,
    /// Comment above the setting; may be empty.
    meaning: String,
}

/// Document for these defaults.
pub(crate) fn document(defaults: &str) -> String {
    let (preamble, sections) = read(defaults);
    let mut text = BEFORE.to_owned();
    // The first paragraph describes the file, not the settings.
    prose(&mut text, preamble.split(String::is_empty).next_back().unwrap_or_default());
    for section in &sections {
        if section.settings.is_empty() && section.about.is_empty() {
            continue;
        }
        match section.name.as_str() {
            "" => text.push_str("\n## The data directory\n\n"),
            name => _ = write!(text, "\n## `[{name}]`\n\n"),
        }
        if !section.about.is_empty() {
            prose(&mut text, &section.about);
            text.push('\n');
        }
        text.push_str("| key | default | meaning | variable |\n|---|---|---|---|\n");
        for setting in &section.settings {
            let key = path(&section.name, &setting.key);
            let meaning = match setting.meaning.as_str() {
                "" if section.name.starts_with("queue.") => {
                    format!("as `{}`, for this queue", path("queue.defaults", &setting.key))
                }
                meaning => meaning.replace('|', "\\|"),
            };
            let variable = format!("CRAWLWAY_{}", key.replace('.', "__").to_ascii_uppercase());
            let _ = writeln!(text, "| `{key}` | `{}` | {meaning} | `{variable}` |", setting.default);
        }
    }
    text.push_str(AFTER);
    text
}

fn path(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// Preamble and sections of the file. A comment above a setting also applies to the following settings without one.
fn read(defaults: &str) -> (Vec<String>, Vec<Section>) {
    let mut preamble = None;
    let (mut sections, mut section) = (Vec::new(), Section::default());
    let mut comment: Vec<String> = Vec::new();
    let mut meaning = String::new();
    for line in defaults.lines().map(str::trim_end) {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let about = std::mem::take(&mut comment);
            let next = Section { name: name.to_owned(), about, settings: Vec::new() };
            sections.push(std::mem::replace(&mut section, next));
            meaning.clear();
        } else if let Some((key, default)) = line.split_once(" = ") {
            if !comment.is_empty() {
                meaning = std::mem::take(&mut comment).join(" ");
            }
            let (key, default) = (key.to_owned(), default.to_owned());
            section.settings.push(Setting { key, default, meaning: meaning.clone() });
        } else if line.is_empty() && preamble.is_none() {
            preamble = Some(std::mem::take(&mut comment));
        }
    }
    sections.push(section);
    (preamble.unwrap_or_default(), sections)
}

/// Writes paragraphs; indented lines become code blocks.
fn prose(text: &mut String, lines: &[String]) {
    let mut example = false;
    for line in lines {
        let indented = line.strip_prefix("    ");
        if indented.is_some() != example && !line.is_empty() {
            text.push_str(if example { "```\n" } else { "```toml\n" });
            example = !example;
        }
        text.push_str(indented.unwrap_or(line));
        text.push('\n');
    }
    if example {
        text.push_str("```\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: &str = "\
# What this file is.
#
# How sizes are written.

# Where things are kept.
data_dir = \"data\"

# Of all queues.
#
#     [queue.mine]
#     prefetch = 1
[queue.defaults]
# How many, at
# most.
prefetch = 32

[queue.pages]
prefetch = 9

[fetch]
# One | two, and both.
one = \"1s\"
two = []
";

    #[test]
    fn each_setting_has_a_row() {
        let text = document(DEFAULTS);
        for row in [
            "## The data directory\n\n| key | default | meaning | variable |\n|---|---|---|---|\n\
             | `data_dir` | `\"data\"` | Where things are kept. | `CRAWLWAY_DATA_DIR` |\n",
            "| `queue.defaults.prefetch` | `32` | How many, at most. | `CRAWLWAY_QUEUE__DEFAULTS__PREFETCH` |\n",
            "| `queue.pages.prefetch` | `9` | as `queue.defaults.prefetch`, for this queue | `CRAWLWAY_QUEUE__PAGES__PREFETCH` |\n",
            "| `fetch.one` | `\"1s\"` | One \\| two, and both. | `CRAWLWAY_FETCH__ONE` |\n",
            "| `fetch.two` | `[]` | One \\| two, and both. | `CRAWLWAY_FETCH__TWO` |\n",
        ] {
            assert!(text.contains(row), "{row}\nis missing in\n{text}");
        }
    }

    #[test]
    fn every_setting_is_documented() {
        let (_, sections) = read(include_str!("../../../config/crawlway.toml"));
        for section in sections.iter().filter(|section| !section.name.starts_with("queue.")) {
            for setting in &section.settings {
                let key = path(&section.name, &setting.key);
                assert!(!setting.meaning.is_empty(), "`{key}` has no comment in config/crawlway.toml");
            }
        }
        let text = document(DEFAULTS.replace("[queue.pages]", "[broker.pages]").as_str());
        assert!(!text.contains("for this queue"), "only queues inherit queue defaults: {text}");
    }

    #[test]
    fn the_comment_of_a_section_is_above_its_table() {
        let text = document(DEFAULTS);
        let about =
            "## `[queue.defaults]`\n\nOf all queues.\n\n```toml\n[queue.mine]\nprefetch = 1\n```\n\n| key |";
        assert!(text.contains(about), "{text}");
        assert!(text.contains("How sizes are written.\n") && !text.contains("What this file is."), "{text}");
    }
}
