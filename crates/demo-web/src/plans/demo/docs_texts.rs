//! The documentation of Lantern, a tool that does not exist: it builds small web sites from text files.

/// A command: its name, what it does, its options with what they do, and what else is to be known.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    pub(super) options: [(&'static str, &'static str); 3],
    pub(super) note: &'static str,
}

pub(super) const COMMANDS: [Command; 12] = [
    Command {
        name: "init",
        does: "Creates a new site in an empty directory, with a first page, a theme and a settings file.",
        options: [
            ("--theme", "names the theme to begin with"),
            ("--force", "allows a directory that is not empty"),
            ("--bare", "leaves out the example page"),
        ],
        note: "Nothing is ever overwritten without --force, and even then the old file is kept with a tilde.",
    },
    Command {
        name: "build",
        does: "Turns all pages into HTML and writes them to the output directory.",
        options: [
            ("--drafts", "includes pages that are marked as drafts"),
            ("--jobs", "says how many pages are rendered at once"),
            ("--clean", "removes what an earlier build has left"),
        ],
        note: "Only pages whose source or template has changed are rendered again; the rest comes from the cache.",
    },
    Command {
        name: "serve",
        does: "Serves the site on a local port and reloads the browser when a file changes.",
        options: [
            ("--port", "chooses another port than 4040"),
            ("--open", "opens the browser"),
            ("--quiet", "logs errors only"),
        ],
        note: "The server listens on the loopback address only, so nobody else on the network can see a draft.",
    },
    Command {
        name: "check",
        does: "Looks for broken links, missing pictures and headings that skip a level.",
        options: [
            ("--external", "asks other web sites too, politely"),
            ("--json", "prints findings for programs"),
            ("--strict", "treats warnings as errors"),
        ],
        note: "The exit code is 1 if anything was found, so the command can guard a deployment.",
    },
    Command {
        name: "deploy",
        does: "Copies the built site to a server and switches to it in one step.",
        options: [
            ("--target", "names an entry of the settings"),
            ("--dry-run", "shows what would be copied"),
            ("--keep", "says how many old versions stay on the server"),
        ],
        note: "A deployment that fails half way leaves the old version in place.",
    },
    Command {
        name: "rollback",
        does: "Switches back to the version that was deployed before.",
        options: [
            ("--to", "names an older version"),
            ("--list", "lists the versions that are kept"),
            ("--yes", "asks no question"),
        ],
        note: "Rolling back copies nothing, which is why it takes less than a second.",
    },
    Command {
        name: "new",
        does: "Creates a page from a model, with today's date and a title.",
        options: [
            ("--model", "chooses another model"),
            ("--title", "sets the title"),
            ("--edit", "opens the editor"),
        ],
        note: "The file name is made from the title: lower case, with hyphens for everything else.",
    },
    Command {
        name: "import",
        does: "Reads pages from another system and writes them as text files.",
        options: [
            ("--from", "names the kind of source: feed, wiki or export"),
            ("--since", "leaves out older pages"),
            ("--images", "downloads pictures as well"),
        ],
        note: "An import can be repeated; pages that were changed by hand since are not touched.",
    },
    Command {
        name: "search-index",
        does: "Builds a search index that runs in the browser without a server.",
        options: [
            ("--fields", "says what is indexed: title, text or tags"),
            ("--language", "chooses the stemmer"),
            ("--size", "caps the size of the index"),
        ],
        note: "Words that occur on nearly every page are left out, which halves the index.",
    },
    Command {
        name: "theme",
        does: "Lists, installs and updates themes.",
        options: [
            ("--install", "fetches a theme by its address"),
            ("--update", "updates all themes"),
            ("--remove", "removes a theme that no page uses"),
        ],
        note: "A theme is a directory of templates; yours come before those of the theme.",
    },
    Command {
        name: "cache",
        does: "Shows how large the build cache is and empties it.",
        options: [
            ("--clear", "removes everything"),
            ("--older", "removes entries that were not used for some days"),
            ("--verify", "compares entries with their checksums"),
        ],
        note: "The cache may be deleted at any time; the next build is slower, and that is all.",
    },
    Command {
        name: "doctor",
        does: "Checks the installation and prints what a bug report needs.",
        options: [
            ("--paths", "shows which directories are used"),
            ("--network", "tests the connection to deployment targets"),
            ("--copy", "puts the report on the clipboard"),
        ],
        note: "Passwords and tokens are replaced by stars before anything is printed.",
    },
];

/// Guides: a title, and paragraphs.
pub(super) const GUIDES: [(&str, [&str; 3]); 16] = [
    (
        "Getting started",
        [
            "Install Lantern with your package manager, create a directory and run lantern init in it.",
            "Write a page in plain text, run lantern serve and look at it in the browser.",
            "When you like what you see, lantern build writes the whole site to the directory public.",
        ],
    ),
    (
        "Installing on Linux",
        [
            "Packages exist for the common distributions, and a static binary for all others.",
            "Put the binary on your path and run lantern doctor to see that everything is found.",
            "No run-time, interpreter or database is needed.",
        ],
    ),
    (
        "Installing on macOS and Windows",
        [
            "Download the archive for your system and unpack it where you like.",
            "The first start may ask whether you trust the program; its signature is on the download page.",
            "Updates replace a single file.",
        ],
    ),
    (
        "Writing pages",
        [
            "A page is a text file with a short head of settings and a body in Markdown.",
            "Headings, lists, tables, footnotes and code blocks are understood.",
            "A blank line begins a new paragraph, and that is the only rule to remember.",
        ],
    ),
    (
        "Front matter reference",
        [
            "The head of a page is written in TOML between two lines of plus signs.",
            "Known keys are title, date, tags, draft, template, aliases and weight; unknown keys are errors.",
            "Dates without a time mean midnight UTC.",
        ],
    ),
    (
        "Templates",
        [
            "Templates are HTML with placeholders in braces.",
            "A template can extend another one and fill its blocks, loop over pages and include pieces.",
            "Whatever comes from a page is escaped unless the template says otherwise.",
        ],
    ),
    (
        "Taxonomies and tags",
        [
            "Tags group pages across directories, and each tag gets a page of its own.",
            "Define further taxonomies, such as authors or places, in the settings.",
            "An empty taxonomy creates no pages.",
        ],
    ),
    (
        "Images",
        [
            "Pictures are resized when the site is built, never when a page is visited.",
            "Say how wide a picture is shown, and Lantern writes the sizes that screens need.",
            "Originals are kept out of the output unless you ask for them.",
        ],
    ),
    (
        "Feeds and sitemaps",
        [
            "Every section has an Atom feed with its last twenty pages.",
            "A sitemap with all pages and their dates is written at each build.",
            "Pages that are marked noindex are left out of both.",
        ],
    ),
    (
        "Multilingual sites",
        [
            "Put translations side by side and name the language before the extension.",
            "Links between translations and the right language attributes are written for you.",
            "A page without a translation falls back to the default language.",
        ],
    ),
    (
        "Redirects",
        [
            "When a page moves, list its old addresses as aliases.",
            "Lantern writes a rule for your web server, or a small page that redirects when there is no server to configure.",
            "Chains of aliases are flattened, so that a visitor is sent on only once.",
        ],
    ),
    (
        "Performance",
        [
            "A site of ten thousand pages builds in about six seconds on a laptop.",
            "Most of the time goes into pictures, so let the cache live between builds.",
            "Use lantern build with the option jobs to leave some processors to others.",
        ],
    ),
    (
        "Troubleshooting builds",
        [
            "An error names the file, the line and what was expected there.",
            "If a page is missing, look for draft = true or a date in the future.",
            "If a template seems to be ignored, lantern doctor shows where templates are looked for.",
        ],
    ),
    (
        "Continuous deployment",
        [
            "Run lantern check and lantern build in your pipeline, and deploy only if both succeed.",
            "Keep the cache directory between runs to save time.",
            "A deployment token needs the right to write to one directory and no more.",
        ],
    ),
    (
        "Accessibility",
        [
            "Themes are tested with screen readers and by keyboard.",
            "The check command complains about pictures without a description and about colours with too little contrast.",
            "Headings should describe, not decorate.",
        ],
    ),
    (
        "Frequently asked questions",
        [
            "Can I use Lantern for a blog? Yes, and for a manual, a club or a museum.",
            "Does it need JavaScript? Only the search in the browser does.",
            "Who makes it? Nobody: Lantern was invented so that crawlers have something to read.",
        ],
    ),
];
