//! What the tests share: a manager in a temporary home, the command line, survivors, Pythons.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warmcell::config::{Caller, Settings};
use warmcell::execution::{LiveEvent, Outcome};
use warmcell::session::{Cell, Registry, Session};
use warmcell::tools::ToolTable;

/// A deadline that only a fault reaches.
pub const SAFETY: Duration = Duration::from_secs(30);

/// The versions that kernels are tested on.
const VERSIONS: [&str; 6] = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"];

/// A place of its own for one test: home, runtime folder, and a mark in the PATH of everything that
/// is started.
pub struct Place {
    pub folder: TempDir,
    pub mark: String,
}

impl Place {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::Builder::new()
            .prefix("wc-")
            .tempdir_in("/tmp")
            .unwrap();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("/warmcell-test-{}-{count}_", std::process::id());
        for name in ["home", "run", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, mark }
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The working directory of kernels.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub fn settings(&self) -> Settings {
        Settings {
            runtime_dir: Some(self.folder.path().join("run")),
            ..Settings::new(self.home())
        }
    }

    /// The environment of a caller: little, and the mark.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let path = format!("/usr/local/bin:/usr/bin:/bin:{}", self.mark);
        BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), self.work().display().to_string()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ])
    }

    /// A caller that asks for a Python by name.
    pub fn caller(&self, python: &Path) -> Caller {
        Caller {
            environment: self.environment().into_iter().collect(),
            cwd: self.work(),
            umask: 0o022,
            limits: None,
            python: Some(python.to_owned()),
            kernel: None,
            mode: None,
            named: Vec::new(),
        }
    }

    /// A command line in this place, on the given Python.
    pub fn warmcell(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_warmcell"));
        command.args(arguments).current_dir(self.work());
        command
    }

    /// `warmcell exec` with the default Python.
    pub fn exec(&self, arguments: &[&str]) -> Command {
        let mut command = self.warmcell(&["exec", "--python"]);
        command.arg(python()).args(arguments);
        command
    }

    /// Any program with the environment of this place.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is the user of the product"
    )]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            .env("HERMES_HOME", self.home())
            .env("XDG_RUNTIME_DIR", self.folder.path().join("run"))
            .stdin(Stdio::null());
        command
    }

    /// Processes that bear the mark, with their command lines.
    pub fn survivors(&self) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&self.mark) {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
            }
        }
        found
    }

    /// Waits until nothing bears the mark.
    pub async fn assert_no_survivors(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let survivors = self.survivors();
            if survivors.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "survivors: {survivors:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A manager in a place of its own.
pub struct Manager {
    pub place: Place,
    pub registry: Registry,
}

impl Manager {
    pub async fn start() -> Self {
        Self::with_tools(ToolTable::standard()).await
    }

    pub async fn with_tools(tools: ToolTable) -> Self {
        let place = Place::new();
        let registry = Registry::with_tools(place.settings(), tools).await.unwrap();
        Self { place, registry }
    }

    /// A session on the default Python.
    pub fn session(&self, name: &str) -> Session {
        self.session_on(name, python())
    }

    pub fn session_on(&self, name: &str, python: &Path) -> Session {
        self.registry
            .session(name, &self.place.caller(python))
            .unwrap()
    }

    /// Ends everything, and checks that nothing is left: no process, no file in the runtime folder.
    pub async fn end(self) {
        self.registry.shut_down().await;
        self.place.assert_no_survivors().await;
        let run = self.place.folder.path().join("run/warmcell");
        let left: Vec<_> = fs::read_dir(run).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "left in the runtime folder: {left:?}");
    }
}

/// Runs a cell on the default terms.
pub async fn run(session: &Session, code: &str) -> Outcome {
    run_cell(session, Cell::new(code)).await
}

/// Runs a cell; a test never waits for ever.
pub async fn run_cell(session: &Session, cell: Cell) -> Outcome {
    let mut execution = session.execute(cell);
    tokio::time::timeout(SAFETY, execution.outcome())
        .await
        .expect("the cell gave no result")
}

/// The Python for tests that need only one: the newest that is there.
pub fn python() -> &'static Path {
    pythons()
        .last()
        .map(|(_, path)| path.as_path())
        .expect("no Python from 3.8 on is installed")
}

/// All Pythons from 3.8 to 3.13 that are installed, by version; what is missing is said once.
pub fn pythons() -> &'static [(String, PathBuf)] {
    static FOUND: LazyLock<Vec<(String, PathBuf)>> = LazyLock::new(|| {
        let found: Vec<_> = VERSIONS
            .iter()
            .filter_map(|v| Some(((*v).to_owned(), find(v)?)))
            .collect();
        let missing: Vec<_> = VERSIONS
            .iter()
            .filter(|v| found.iter().all(|(it, _)| it != *v))
            .collect();
        if !missing.is_empty() {
            eprintln!("NOT TESTED: no Python {missing:?} found (pyenv or PATH)");
        }
        found
    });
    &FOUND
}

fn find(version: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv")));
    let prefix = format!("{version}.");
    let from_pyenv = root.and_then(|root| {
        let versions = fs::read_dir(root.join("versions")).ok()?;
        let mut folders: Vec<PathBuf> = versions.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        folders
            .into_iter()
            .rfind(|path| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
            })
            .map(|path| path.join("bin/python"))
            .filter(|path| path.exists())
    });
    from_pyenv.or_else(|| {
        ["/usr/local/bin", "/usr/bin"]
            .iter()
            .map(|folder| Path::new(folder).join(format!("python{version}")))
            .find(|path| path.exists())
    })
}

/// The text of a command's output.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command to its end within the safety deadline.
pub fn finish(command: &mut Command) -> Output {
    finish_within(command, SAFETY)
}

/// The same for a command that takes its time.
pub fn finish_within(command: &mut Command, limit: Duration) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if waiting.recv_timeout(limit).is_err() {
            let pid = i32::try_from(pid)
                .ok()
                .and_then(rustix::process::Pid::from_raw)
                .unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    });
    let output = child.wait_with_output().unwrap();
    done.send(()).ok();
    watchdog.join().unwrap();
    output
}

/// Runs a test on every Python at once, each with a session of its own.
pub async fn on_each_python(test: impl AsyncFn(&Session, &str)) {
    let manager = Manager::start().await;
    let runs = pythons().iter().map(|(version, python)| {
        let session = manager.session_on(&format!("s-{version}"), python);
        let test = &test;
        async move { test(&session, version).await }
    });
    all(runs).await;
    manager.end().await;
}

/// Runs cells one after the other on every Python; each must succeed and show exactly this.
pub async fn shown_on_each_python(cells: &[(&str, &str)]) {
    on_each_python(async |session, version| {
        for (code, output) in cells {
            assert_shows(
                &run(session, code).await,
                output,
                &format!("{version}: {code}"),
            );
        }
    })
    .await;
}

/// A success that shows exactly this.
#[track_caller]
pub fn assert_shows(outcome: &Outcome, output: &str, what: &str) {
    let output = if output.is_empty() {
        "[completed without output]"
    } else {
        output
    };
    assert_eq!(outcome.output, output, "{what}");
    assert_eq!(outcome.exit_code, 0, "{what}");
}

/// As [`assert_shows`], of a cell that has shown what became files: a line for each follows.
pub fn assert_shows_files(outcome: &Outcome, output: &str, files: usize, what: &str) {
    assert_eq!(outcome.artifacts.len(), files, "{what}: {outcome:?}");
    let mut expected = output.to_owned();
    for file in &outcome.artifacts {
        if !expected.ends_with('\n') {
            expected.push('\n');
        }
        let digits = file.bytes.to_string();
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|group| std::str::from_utf8(group).unwrap())
            .collect();
        let bytes = groups.join(",");
        expected.extend(["[", &file.mime, ", ", &bytes, " bytes: ", &file.path, "]"]);
    }
    assert_shows(outcome, &expected, what);
}

/// Waits for all of them together.
async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), false)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut futures {
            *done = *done || future.as_mut().poll(context).is_ready();
        }
        if futures.iter().all(|(_, done)| *done) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Runs a cell; its result and all of its stdout, unwindowed.
pub async fn run_live(session: &Session, cell: Cell) -> (Outcome, Vec<u8>) {
    let mut execution = session.execute_live(cell);
    let mut live = execution.take_live().unwrap();
    let mut stdout = Vec::new();
    let ended = tokio::time::timeout(SAFETY, async {
        while let Some(event) = live.next().await {
            if let LiveEvent::Stdout(bytes) = event {
                stdout.extend_from_slice(&bytes);
            }
        }
        execution.outcome().await
    });
    let outcome = ended.await.expect("the cell gave no result");
    (outcome, stdout)
}

/// A named pipe: the test and the code of a cell wait for each other with it.
pub struct Signal(PathBuf);

impl Signal {
    pub fn new(manager: &Manager, name: &str) -> Self {
        Self::in_place(&manager.place, name)
    }

    pub fn in_place(place: &Place, name: &str) -> Self {
        let path = place.work().join(name);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        Self(path)
    }

    /// Waits until the other side has opened it for writing and closed it.
    pub async fn wait(&self) {
        let read = tokio::fs::read(self.0.clone());
        tokio::time::timeout(SAFETY, read).await.unwrap().unwrap();
    }

    /// Lets the other side go on, once it reads.
    pub async fn give(&self) {
        let write = tokio::fs::write(self.0.clone(), b"x");
        tokio::time::timeout(SAFETY, write).await.unwrap().unwrap();
    }
}
