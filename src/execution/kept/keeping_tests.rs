use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use tempfile::TempDir;

use super::super::store::{Keep, Shelf};
use super::*;
use crate::folders::kept::KeptKind;
use crate::jupyter::{Channel, PublishedKind, RawMessage, header};

const PATIENCE: Duration = Duration::from_secs(20);

fn here() -> (TempDir, Arc<Store>) {
    let home = TempDir::new().unwrap();
    let store = Store::new(home.path().to_owned());
    (home, store)
}

fn keeping(store: &Arc<Store>, window: usize) -> Keeping {
    Keeping::new(store, Files::All, window, 1 << 20, None).unwrap()
}

fn files(home: &Path) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(home.join("cache/exec"));
    let files = folder.into_iter().flatten().map(|it| it.unwrap().path());
    files.collect()
}

/// A disk of which nothing good is to be had.
#[derive(Debug)]
enum BadDisk {
    /// It takes so many bytes; a second file all.
    Full(AtomicUsize),
    /// It takes nothing, until this is dropped.
    Hangs(Arc<Mutex<mpsc::Receiver<()>>>),
    /// It does not even begin.
    Refuses,
}

struct BadFile(Option<usize>, Option<Arc<Mutex<mpsc::Receiver<()>>>>);

impl Shelf for BadDisk {
    fn create(&self, _kind: KeptKind) -> io::Result<Box<dyn Keep>> {
        match self {
            Self::Full(room) => {
                let room = room.swap(usize::MAX, Ordering::Relaxed);
                Ok(Box::new(BadFile(Some(room), None)))
            }
            Self::Hangs(until) => Ok(Box::new(BadFile(None, Some(Arc::clone(until))))),
            Self::Refuses => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    fn place(&self) -> PathBuf {
        "/home/cache/exec".into()
    }
}

impl Keep for BadFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(until) = &self.1 {
            until.lock().unwrap().recv().ok();
        }
        let left = self.0.and_then(|room| room.checked_sub(bytes.len()));
        self.0 = left;
        left.map(|_| ())
            .ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    fn path(&self) -> PathBuf {
        "/home/cache/exec/file".into()
    }

    fn finish(self: Box<Self>, _may_be_renamed: bool) -> io::Result<PathBuf> {
        Ok(self.path())
    }
}

fn shown(data: &str) -> Arc<Published> {
    let content = format!("{{\"data\":{data},\"metadata\":{{}}}}");
    let head = header("warmcell", "display_data", "", "");
    let message = RawMessage::new(Channel::Iopub, head, Bytes::from(content));
    Arc::new(Published::read(PublishedKind::Display, message).unwrap())
}

#[tokio::test]
async fn what_fits_the_window_needs_no_file() {
    let (home, store) = here();
    let mut small = keeping(&store, 10);
    small.text(b"0123456789");
    assert_eq!(small.finish(PATIENCE).await, Kept::default());
    assert!(files(home.path()).is_empty());
    assert!(Keeping::new(&store, Files::None, 10, 100, None).is_none());
    let mut live = Keeping::new(&store, Files::Artifacts, 10, 100, None).unwrap();
    live.text(b"0123456789a");
    assert_eq!(live.finish(PATIENCE).await, Kept::default());
    assert!(files(home.path()).is_empty());
}

#[tokio::test]
async fn one_byte_more_and_all_of_it_is_in_a_file() {
    let (home, store) = here();
    let mut paths = Vec::new();
    for pieces in [
        &["0123456789", "a"][..],
        &["012345", "6789a"],
        &["0123456789a"],
    ] {
        let mut keeping = keeping(&store, 10);
        for piece in pieces {
            keeping.text(piece.as_bytes());
        }
        let kept = keeping.finish(PATIENCE).await;
        let path = kept.output.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123456789a");
        paths.push(path);
    }
    // However it came, the same text is the same file.
    paths.dedup();
    assert_eq!(paths, files(home.path()));
}

#[tokio::test]
async fn a_path_that_was_told_stays() {
    let (home, store) = here();
    for told in [false, true] {
        let mut keeping = keeping(&store, 0);
        keeping.text(b"text");
        let mut before = None;
        while told && before.is_none() {
            tokio::task::yield_now().await;
            before = keeping.so_far().output;
        }
        keeping.text(b" and more");
        let path = keeping.finish(PATIENCE).await.output.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"text and more");
        assert!(!told || before == Some(path));
    }
    assert_eq!(files(home.path()).len(), 2);
}

#[tokio::test]
async fn beyond_the_limit_a_line_says_so() {
    let (_home, store) = here();
    let mut keeping = Keeping::new(&store, Files::All, 2, 9, None).unwrap();
    for piece in ["äöü", "ßéà", "more"] {
        keeping.text(piece.as_bytes());
    }
    let kept = keeping.finish(PATIENCE).await;
    assert!(kept.is_cut);
    let line = kept.output_line(false, true).unwrap();
    assert!(
        line.starts_with("[the output up to max_spill_bytes is in /"),
        "{line}"
    );
    // The half of a character that there was room for is not there.
    let text = std::fs::read_to_string(kept.output.unwrap()).unwrap();
    assert_eq!(
        text,
        "äöüß\n[... the output goes on; max_spill_bytes is 9 ...]\n"
    );
    let (home, store) = here();
    let mut keeping = Keeping::new(&store, Files::All, 2, 0, None).unwrap();
    keeping.text(b"text");
    let kept = keeping.finish(PATIENCE).await;
    assert_eq!(kept.lost.as_deref(), Some("max_spill_bytes is 0"));
    assert!(files(home.path()).is_empty());
}

/// What becomes of an output with this disk, of which more comes than may wait.
async fn with_bad(disk: BadDisk, why: &str) {
    let mut keeping = Keeping::with(Arc::new(disk), Files::All, 2, 1 << 20, None);
    let pressure = keeping.pressure();
    let piece = vec![b'x'; WAITING_BYTES];
    for _ in 0..2 {
        keeping.text(&piece);
        // Whoever reads the kernel waits, but not for ever.
        pressure.relieved().await;
    }
    let kept = keeping.finish(PATIENCE).await;
    assert_eq!(
        (kept.output.as_ref(), kept.lost.as_deref()),
        (None, Some(why))
    );
    let warning = "what the window leaves out of stdout was not kept in /home/cache/exec";
    assert_eq!(kept.warnings(), [format!("{warning}: {why}")]);
    let line = kept.output_line(false, true).unwrap();
    assert!(
        line.starts_with("[what is left out above was not kept ("),
        "{line}"
    );
    assert!(!pressure.is_full());
}

#[tokio::test]
async fn a_disk_that_is_full_or_read_only_costs_the_file_alone() {
    with_bad(BadDisk::Full(AtomicUsize::new(3)), "no storage space").await;
    with_bad(BadDisk::Refuses, "read-only filesystem or storage medium").await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_costs_the_file_alone() {
    let (_release, until) = mpsc::channel();
    let hangs = BadDisk::Hangs(Arc::new(Mutex::new(until)));
    with_bad(hangs, "the disk did not answer for 2 s").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_cell_waits_for_the_disk_only_so_long() {
    let (_release, until) = mpsc::channel();
    let hangs = BadDisk::Hangs(Arc::new(Mutex::new(until)));
    let mut keeping = Keeping::with(Arc::new(hangs), Files::All, 2, 1 << 20, None);
    keeping.text(b"text");
    keeping.show(&shown(r#"{"image/png":"AAAA"}"#));
    let began = tokio::time::Instant::now();
    let kept = keeping.finish(Duration::from_millis(500)).await;
    assert_eq!(began.elapsed(), Duration::from_millis(500));
    assert_eq!(kept.lost.as_deref(), Some("the disk was too slow"));
    assert_eq!(
        (kept.unkept, kept.why.as_deref()),
        (1, Some("the disk was too slow"))
    );
}

#[tokio::test]
async fn images_are_files_and_what_makes_no_sense_is_told() {
    let (home, store) = here();
    let mut keeping = keeping(&store, 10);
    for data in [
        r#"{"image/png":"iVBO\nRw==\n","text/plain":"<Figure>"}"#,
        r#"{"image/svg+xml":["<svg>","é</svg>"],"application/pdf":"JVBERg"}"#,
        r#"{"text/html":"<b>no file</b>","application/json":{}}"#,
        r#"{"image/jpeg":"no-base64!"}"#,
        r#"{"image/gif":""}"#,
    ] {
        keeping.show(&shown(data));
    }
    let kept = keeping.finish(PATIENCE).await;
    let read = |artifact: &crate::execution::Artifact| {
        let bytes = std::fs::read(&artifact.path).unwrap();
        assert_eq!(bytes.len() as u64, artifact.bytes);
        let path = artifact.path.strip_prefix(home.path().to_str().unwrap());
        let extension = path.unwrap().rsplit_once('.').unwrap().1;
        (artifact.mime.clone(), extension.to_owned(), bytes)
    };
    let all: Vec<_> = kept.artifacts.iter().map(read).collect();
    let wanted: [(&str, &str, &[u8]); 3] = [
        ("image/png", "png", b"\x89PNG"),
        ("application/pdf", "pdf", b"%PDF"),
        ("image/svg+xml", "svg", "<svg>é</svg>".as_bytes()),
    ];
    for (found, (mime, extension, bytes)) in all.iter().zip(wanted) {
        assert_eq!(
            found,
            &(mime.to_owned(), extension.to_owned(), bytes.to_vec())
        );
    }
    assert_eq!(all.len(), 3);
    assert_eq!(
        (kept.unkept, kept.why.as_deref()),
        (2, Some("it is no image/jpeg in base64"))
    );
    assert!(kept.output.is_none() && kept.lost.is_none());
    let line = kept.artifact_lines().next().unwrap();
    assert_eq!(
        line,
        format!("[image/png, 4 bytes: {}]", kept.artifacts[0].path)
    );
}

#[tokio::test]
async fn a_cell_has_a_hundred_artifacts() {
    let (home, store) = here();
    let mut keeping = keeping(&store, 10);
    for number in 0..103 {
        keeping.show(&shown(&format!(
            r#"{{"image/svg+xml":"<svg>{number}</svg>"}}"#
        )));
    }
    let kept = keeping.finish(PATIENCE).await;
    assert_eq!((kept.artifacts.len(), kept.unkept), (100, 3));
    assert_eq!(files(home.path()).len(), 100);
    let place = home.path().join("cache/exec");
    assert_eq!(
        kept.warnings(),
        [format!(
            "3 things that the cell has shown were not kept in {}: a cell may have 100",
            place.display()
        )]
    );
}

#[tokio::test]
async fn what_is_not_finished_is_gone() {
    let (home, store) = here();
    let mut keeping = keeping(&store, 0);
    keeping.text(b"text");
    while keeping.so_far().output.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(files(home.path()).len(), 1);
    drop(keeping);
    // By the thread that has it, once it hears of that.
    while !files(home.path()).is_empty() {
        tokio::task::yield_now().await;
    }
}
