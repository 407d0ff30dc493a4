//! Working directory of a test, in which the program runs with a clean environment.

use crawlway_broker::{Broker, QueueBackend};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

/// Working directory of the program, with the default data directory.
pub(crate) struct Home {
    directory: TempDir,
}

/// Exit code and output of the program.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The default data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("crawlway-data")
    }

    pub(crate) fn queue(&self) -> PathBuf {
        self.data().join("queue")
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    /// The program in this directory, with an empty environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.path()).env_clear().stdin(Stdio::null());
        command
    }

    /// Runs the program with arguments that have no spaces in them.
    pub(crate) fn run(&self, line: &str) -> Ran {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        Ran::of(self.command(&arguments))
    }

    pub(crate) fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.command(&arguments);
        command.envs(variables.iter().copied());
        Ran::of(command)
    }

    pub(crate) fn open_broker(&self, options: Options) -> EmbeddedBroker {
        // With the mode that the program uses, or it would warn.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.data()).unwrap();
        EmbeddedBroker::open(&self.queue(), options).unwrap()
    }

    /// Opens the queues, runs the closure, and closes them.
    pub(crate) fn with_broker<T>(
        &self,
        options: Options,
        work: impl AsyncFnOnce(&dyn QueueBackend) -> T,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let broker = self.open_broker(options);
            let done = work(&broker).await;
            broker.close().await.unwrap();
            self.wait_until_unlocked();
            done
        })
    }

    /// Waits for the lock of the queue directory. A process that another test is forking holds all open files of this one for
    /// an instant, the lock included.
    pub(crate) fn wait_until_unlocked(&self) {
        let lock = fs::File::open(self.queue().join("lock")).unwrap();
        lock.lock().unwrap();
        lock.unlock().unwrap();
    }
}

impl Ran {
    pub(crate) fn of(mut command: Command) -> Self {
        let Output { status, stdout, stderr } = loop {
            match command.output() {
                // A fresh copy of the program may still be open for writing in a process that another test is forking.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
                ended => break ended.unwrap(),
            }
        };
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Standard output of a success without errors.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Standard error of a failure without output.
    #[track_caller]
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("backtrace"), "{}", self.stderr);
        self.stderr
    }
}
