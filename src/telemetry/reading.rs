//! The last lines of the log, over the files that it was put aside into; within little memory, however
//! long they are.
//!
//! An entry is a line that begins with a time and a level, and those below it that do not.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tracing::level_filters::LevelFilter;

use super::file::{BACKUPS, backup};
use super::level_named;

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// Bytes in which time, level and session of a line stand.
const HEAD: usize = 256;
/// A line is handed on in pieces of so many bytes.
const PIECE: u64 = 64 << 10;
/// Where the level begins: behind `2026-11-30T14:52:01.123Z `.
const TIME_BYTES: usize = 24;

/// Which entries are wanted.
#[derive(Debug, Clone)]
pub struct Query {
    /// How many, the latest; default 50.
    pub entries: usize,
    /// From this level on; default all.
    pub level: Option<LevelFilter>,
    /// Of this session alone.
    pub session: Option<String>,
    /// From this time on.
    pub since: Option<Timestamp>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            entries: 50,
            level: None,
            session: None,
            since: None,
        }
    }
}

/// The beginning of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head<'a> {
    time: &'a str,
    level: LevelFilter,
    session: &'a str,
}

impl<'a> Head<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let line = line.get(..line.len().min(HEAD))?;
        let is_time = [
            (4, b'-'),
            (7, b'-'),
            (10, b'T'),
            (13, b':'),
            (TIME_BYTES - 1, b'Z'),
        ];
        if !is_time.iter().all(|(at, sign)| line.get(*at) == Some(sign)) {
            return None;
        }
        let (time, rest) = line.split_at_checked(TIME_BYTES)?;
        let mut words = rest
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        let level = level_named(str::from_utf8(words.next()?).ok()?)?;
        let session = str::from_utf8(words.next()?).ok()?;
        Some(Self {
            time: str::from_utf8(time).ok()?,
            level,
            session: session.strip_prefix('[')?.strip_suffix(']')?,
        })
    }
}

impl Query {
    fn wants(&self, head: &Head<'_>) -> bool {
        // `ERROR` is the lowest of the filters.
        self.level.is_none_or(|level| head.level <= level)
            && self.session.as_ref().is_none_or(|it| it == head.session)
            && self.is_since(head)
    }

    fn is_since(&self, head: &Head<'_>) -> bool {
        let Some(since) = self.since else { return true };
        head.time
            .parse::<Timestamp>()
            .is_ok_and(|time| time >= since)
    }
}

/// The files of a log, as they are now: what is written and put aside later is not among it.
#[derive(Debug)]
pub struct LogFiles {
    /// The newest first; each as long as it was.
    files: Vec<(File, u64)>,
    pub(super) path: PathBuf,
}

/// A place in them: which file, and where in it.
type Place = (usize, u64);

impl LogFiles {
    /// Opens them; none if there is none.
    ///
    /// # Errors
    ///
    /// If there is one that cannot be read.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut files: Vec<(File, u64)> = Vec::new();
        let mut seen = Vec::new();
        let names = (1..=BACKUPS).map(|number| backup(path, number));
        for name in std::iter::once(path.to_owned()).chain(names) {
            let Some(file) = open(&name)? else { continue };
            let found = file.metadata()?;
            // One that was put aside meanwhile has two names here.
            let identity = (found.dev(), found.ino());
            if !seen.contains(&identity) {
                seen.push(identity);
                files.push((file, found.len()));
            }
        }
        Ok((!files.is_empty()).then(|| Self {
            files,
            path: path.to_owned(),
        }))
    }

    /// Hands on the last entries that are wanted, in order, in pieces of lines.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or what `show` says.
    pub fn tail(
        &self,
        query: &Query,
        show: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some((first, from)) = self.beginning(query)? else {
            return Ok(());
        };
        let mut filter = Filter::new(query);
        for (number, (file, length)) in self.files.iter().enumerate().take(first + 1).rev() {
            let from = if number == first { from } else { 0 };
            let mut file = file;
            file.seek(SeekFrom::Start(from))?;
            filter.pass(file.take(length.saturating_sub(from)), show)?;
        }
        Ok(())
    }

    /// The newest file, read to where it was, and what is known of its last entry.
    pub(super) fn newest(&self) -> io::Result<(File, u64)> {
        match self.files.first() {
            Some((file, length)) => Ok((file.try_clone()?, *length)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Where the first of the entries begins that are wanted; none if none is.
    fn beginning(&self, query: &Query) -> io::Result<Option<Place>> {
        let mut wanted = 0;
        let mut first = None;
        if query.entries == 0 {
            return Ok(None);
        }
        for (number, (file, length)) in self.files.iter().enumerate() {
            let is_enough = lines_backwards(file, *length, &mut |at, line| {
                let Some(head) = Head::read(line) else {
                    return false;
                };
                if query.wants(&head) {
                    wanted += 1;
                    first = Some((number, at));
                }
                // Lines of several processes are in order but for moments.
                wanted == query.entries || is_long_before(query, &head)
            })?;
            if is_enough {
                break;
            }
        }
        Ok(first)
    }
}

fn is_long_before(query: &Query, head: &Head<'_>) -> bool {
    let Some(since) = query.since else {
        return false;
    };
    let time = head.time.parse::<Timestamp>();
    time.is_ok_and(|time| since.as_second() - time.as_second() > 300)
}

/// Opens a file to read, if it is there and is one; a link is not followed.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Tells the beginning of each line with its place, the last one first, until it is enough; whether it
/// was.
fn lines_backwards(
    file: &File,
    length: u64,
    tell: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> io::Result<bool> {
    let mut block = vec![0; BLOCK];
    let mut head = [0; HEAD];
    // What is told of ends here.
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let part = block.get_mut(..usize::try_from(end - start).unwrap_or(BLOCK));
        let Some(part) = part else { break };
        file.read_exact_at(part, start)?;
        // A line begins behind each line end that is not the last byte, and at the beginning.
        let ends: Vec<usize> = memchr::memrchr_iter(b'\n', part).collect();
        let begins = ends.into_iter().map(|at| start + at as u64 + 1);
        let begins = begins.chain((start == 0).then_some(0));
        for at in begins.filter(|at| *at < length) {
            let inside = usize::try_from(at - start).ok();
            let whole = inside.and_then(|from| part.get(from..from + HEAD));
            let line = if let Some(line) = whole {
                line
            } else {
                let most = usize::try_from(length - at).unwrap_or(HEAD).min(HEAD);
                let Some(head) = head.get_mut(..most) else {
                    continue;
                };
                file.read_exact_at(head, at)?;
                head
            };
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            if tell(at, line) {
                return Ok(true);
            }
        }
        end = start;
    }
    Ok(false)
}

/// Hands on the entries that are wanted of those that come, in pieces.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    query: &'a Query,
    /// Whether the entry is wanted whose lines come.
    is_wanted: bool,
    at_line_start: bool,
}

impl<'a> Filter<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        Self {
            query,
            is_wanted: query.level.is_none() && query.session.is_none() && query.since.is_none(),
            at_line_start: true,
        }
    }

    /// Reads to the end; how much that was.
    pub(super) fn pass(
        &mut self,
        from: impl Read,
        show: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut from = BufReader::with_capacity(BLOCK, from);
        let mut piece = Vec::new();
        let mut bytes = 0;
        loop {
            piece.clear();
            let read = (&mut from).take(PIECE).read_until(b'\n', &mut piece)?;
            if read == 0 {
                return Ok(bytes);
            }
            bytes += read as u64;
            if self.at_line_start
                && let Some(head) = Head::read(&piece)
            {
                self.is_wanted = self.query.wants(&head);
            }
            self.at_line_start = piece.ends_with(b"\n");
            if self.is_wanted {
                show(&piece)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, level: &str, session: &str, text: &str) -> String {
        format!(
            "2026-11-30T14:{:02}:{:02}.123Z {level} [{session}] a::b: {text}\n",
            second / 60,
            second % 60
        )
    }

    fn tail(path: &Path, query: &Query) -> String {
        let mut shown = Vec::new();
        LogFiles::open(path)
            .unwrap()
            .unwrap()
            .tail(query, &mut |piece| {
                shown.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
        String::from_utf8(shown).unwrap()
    }

    fn last(entries: usize) -> Query {
        Query {
            entries,
            ..Query::default()
        }
    }

    #[test]
    fn the_last_entries_come_from_whatever_file_they_are_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("warmcell.log");
        assert!(LogFiles::open(&path).unwrap().is_none());
        let lines: Vec<String> = (0..3_000)
            .map(|number| {
                line(
                    number % 3_600,
                    "INFO",
                    "-",
                    &"x".repeat((number as usize * 37) % 900),
                )
            })
            .collect();
        let text = |range: std::ops::Range<usize>| lines.get(range).unwrap().concat();
        fs::write(backup(&path, 2), text(0..1_000)).unwrap();
        fs::write(backup(&path, 1), text(1_000..2_000)).unwrap();
        fs::write(&path, text(2_000..3_000)).unwrap();
        for entries in [0, 1, 2, 50, 999, 1_000, 1_001, 2_500, 3_000, 5_000] {
            let expected = text(3_000_usize.saturating_sub(entries)..3_000);
            assert!(tail(&path, &last(entries)) == expected, "{entries}");
        }
        // Of one that was put aside and not begun anew yet.
        fs::remove_file(&path).unwrap();
        assert_eq!(tail(&path, &last(2)), text(1_998..2_000));
    }

    #[test]
    fn a_line_without_a_level_belongs_to_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("warmcell.log");
        let long = "y".repeat(200_000);
        let log = [
            "before any\n".to_owned(),
            line(1, "ERROR", "a", "first"),
            format!("  at\n\n{long}\n"),
            line(2, "INFO", "lead/b", "second"),
            "  more\n".to_owned(),
            line(3, "WARN", "a", "third"),
            line(4, "DEBUG", "-", "cut o"),
        ];
        fs::write(&path, log.concat().trim_end()).unwrap();
        let of = |parts: &[usize]| {
            let parts = parts.iter().map(|at| log.get(*at).unwrap().as_str());
            parts.collect::<String>().trim_end().to_owned()
        };
        assert_eq!(tail(&path, &last(1)), of(&[6]));
        assert_eq!(tail(&path, &last(3)), of(&[3, 4, 5, 6]));
        let with = |level: &str, session: Option<&str>, since: Option<&str>| Query {
            level: level_named(level),
            session: session.map(str::to_owned),
            since: since.map(|time| time.parse().unwrap()),
            ..Query::default()
        };
        let got = |query: &Query| tail(&path, query).trim_end().to_owned();
        assert_eq!(got(&with("warning", None, None)), of(&[1, 2, 5]));
        assert_eq!(got(&with("error", None, None)), of(&[1, 2]));
        assert_eq!(got(&with("", Some("lead/b"), None)), of(&[3, 4]));
        assert_eq!(got(&with("", Some("b"), None)), "");
        let since = Some("2026-11-30T14:00:03Z");
        assert_eq!(got(&with("", None, since)), of(&[5, 6]));
        assert_eq!(got(&with("", Some("a"), since)), of(&[5]));
    }

    #[test]
    fn what_is_no_log_is_read_within_little_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("warmcell.log");
        // One line without end, of bytes that are no text.
        fs::write(&path, vec![0xff; 3 << 20]).unwrap();
        let mut most = 0;
        let files = LogFiles::open(&path).unwrap().unwrap();
        files
            .tail(&last(5), &mut |piece| {
                most = most.max(piece.len());
                Ok(())
            })
            .unwrap();
        assert!(most <= BLOCK);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(LogFiles::open(&path).is_err());
    }
}
