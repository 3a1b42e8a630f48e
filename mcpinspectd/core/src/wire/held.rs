//! The bytes of a message that is still arriving.
//!
//! Nearly all fit in memory. A message of tens of megabytes would cost its size beside everything else that a
//! daemon under attack has to remember. So its holder may *spill* it: from then on its bytes are in a file without
//! a name, whose pages the kernel can write out and take back. Whole, it is read through a mapping, because
//! everything that follows wants a slice; the pages that were read are given back while the reading goes on, so
//! that a pass over 64 MiB never has more than a few of them resident.
//!
//! A file that takes no more, as on a full disk, is read back into memory and its message goes on there.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use memmap2::{Mmap, UncheckedAdvice};

/// A buffer of up to this capacity is kept between messages; a larger one is freed.
const KEPT_CAPACITY: usize = 16 * 1024;

/// Bytes of unfinished messages to keep in memory; above that, the largest are spilled.
pub const UNFINISHED_IN_MEMORY: usize = 8 << 20;

/// Most bytes of unfinished messages in memory where files can be had, which leaves those not worth one; above
/// that, the largest of them is given up.
pub const UNFINISHED_SMALL: usize = 32 << 20;

/// The smallest message worth a file, in bytes.
pub const SPILLED_MIN: usize = 128 << 10;

/// How often the pages of a message that is being read are given back. In that time a fast pass reads a few
/// megabytes.
const GIVE_BACK_EVERY: Duration = Duration::from_millis(1);

/// Where messages are spilled to.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    /// The last attempt failed, which has been logged.
    is_failing: bool,
    /// How much memory was taken when nothing in it was worth a file.
    in_vain: usize,
}

/// Bytes of one message so far. Empty by default.
#[derive(Debug, Default)]
pub struct Held {
    storage: Storage,
    /// Spilling failed, so it stays in memory.
    stays: bool,
}

/// What unfinished messages occupy, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferUsage {
    /// Memory.
    pub memory: usize,
    /// Files.
    pub files: usize,
}

#[derive(Debug)]
enum Storage {
    Memory(Vec<u8>),
    File { file: File, length: usize },
}

impl Default for Storage {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Scratch {
    /// Files in `folder`, which the kernel removes when they are closed, however the program ends.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            is_failing: false,
            in_vain: 0,
        }
    }

    /// Whether to look for something to spill, when unfinished messages take so much memory. Not each time: the look
    /// goes through all of them, and may find nothing.
    pub fn is_wanted(&mut self, memory: usize) -> bool {
        if memory <= UNFINISHED_IN_MEMORY {
            self.in_vain = 0;
        }
        memory > UNFINISHED_IN_MEMORY.max(self.in_vain + SPILLED_MIN)
    }

    /// Nothing was worth a file, or could be moved to one.
    pub fn found_nothing(&mut self, memory: usize) {
        self.in_vain = memory;
    }

    /// Whether the last attempt to use it succeeded.
    pub fn works(&self) -> bool {
        !self.is_failing
    }

    /// An empty file.
    fn file(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.folder)
    }

    /// Logs the first of several failures.
    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = &result
            && !self.is_failing
        {
            tracing::warn!(
                folder = %self.folder.display(),
                "cannot keep a large message in a file: {error}; it is kept in memory instead"
            );
        }
        self.is_failing = result.is_err();
    }
}

impl Held {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Memory(bytes) => bytes.len(),
            Storage::File { length, .. } => *length,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it occupies.
    pub fn usage(&self) -> BufferUsage {
        match &self.storage {
            Storage::Memory(bytes) => BufferUsage::memory(bytes.capacity()),
            Storage::File { length, .. } => BufferUsage {
                memory: 0,
                files: *length,
            },
        }
    }

    /// What is in memory.
    pub fn in_memory(&self) -> &[u8] {
        match &self.storage {
            Storage::Memory(bytes) => bytes,
            Storage::File { .. } => &[],
        }
    }

    /// Bytes of memory that spilling it would free; zero if that is not worth a file, or failed before.
    pub fn spillable(&self) -> usize {
        let memory = self.usage().memory;
        if self.stays || self.len() < SPILLED_MIN {
            0
        } else {
            memory
        }
    }

    /// Adds `part`, of a message of at most `max` bytes.
    ///
    /// A large buffer grows by an eighth of its size: if it doubled, a message of 33 MiB would take up 64.
    ///
    /// # Errors
    /// The file took no more and cannot be read either. What was held is lost, and nothing is held.
    pub fn extend(&mut self, part: &[u8], max: usize) -> io::Result<()> {
        match &mut self.storage {
            Storage::Memory(bytes) => {
                let needed = bytes.len() + part.len();
                if needed > bytes.capacity() && needed > KEPT_CAPACITY {
                    let room = needed.saturating_add(needed / 8).min(max).max(needed);
                    bytes.reserve_exact(room - bytes.len());
                }
                bytes.extend_from_slice(part);
                Ok(())
            }
            Storage::File { file, length } => {
                if file.write_all(part).is_ok() {
                    *length += part.len();
                    return Ok(());
                }
                let mut bytes = vec![0; *length];
                let read = file
                    .seek(SeekFrom::Start(0))
                    .and_then(|_| file.read_exact(&mut bytes));
                *self = Self::default();
                read?;
                bytes.extend_from_slice(part);
                self.storage = Storage::Memory(bytes);
                self.stays = true;
                Ok(())
            }
        }
    }

    /// Moves it to a file, if it is not in one. If that fails, it stays in memory, and further attempts are none.
    pub fn spill(&mut self, scratch: &mut Scratch) {
        let Storage::Memory(bytes) = &self.storage else {
            return;
        };
        if self.stays {
            return;
        }
        let length = bytes.len();
        let written = scratch.file().and_then(|mut file| {
            file.write_all(bytes)?;
            Ok(file)
        });
        match written {
            Ok(file) => {
                self.storage = Storage::File { file, length };
                scratch.note(Ok(()));
            }
            Err(error) => {
                self.stays = true;
                scratch.note(Err(error));
            }
        }
    }

    /// Lets `read` read it.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> io::Result<R> {
        match &self.storage {
            Storage::Memory(bytes) => Ok(read(bytes)),
            Storage::File { file, .. } => read_mapped(file, read),
        }
    }

    /// Forgets it, and frees the memory of a large one.
    pub fn clear(&mut self) {
        self.stays = false;
        match &mut self.storage {
            Storage::Memory(bytes) if bytes.capacity() <= KEPT_CAPACITY => bytes.clear(),
            storage => *storage = Storage::default(),
        }
    }
}

/// Maps a file that has bytes, and gives its pages back while they are read.
fn read_mapped<R>(file: &File, read: impl FnOnce(&[u8]) -> R) -> io::Result<R> {
    // SAFETY: the file has no name and no descriptor but ours, so nothing shortens or changes it while it is
    // mapped.
    let map = unsafe { Mmap::map(file) }?;
    let map = &map;
    Ok(thread::scope(|scope| {
        let (reading, over) = channel::<()>();
        let give_back = move || {
            while over.recv_timeout(GIVE_BACK_EVERY) == Err(RecvTimeoutError::Timeout) {
                // SAFETY: the mapping is shared and only read, so a page that is given back comes again with the
                // same bytes when it is touched.
                let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
            }
        };
        // Without the thread the pages stay until the reading ends.
        let _ = thread::Builder::new()
            .name("large message".into())
            .spawn_scoped(scope, give_back);
        let result = read(map);
        drop(reading);
        result
    }))
}

impl BufferUsage {
    /// Only memory.
    pub fn memory(memory: usize) -> Self {
        Self { memory, files: 0 }
    }

    /// All of it.
    pub fn total(self) -> usize {
        self.memory + self.files
    }
}

impl Add for BufferUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            memory: self.memory + other.memory,
            files: self.files + other.files,
        }
    }
}

impl AddAssign for BufferUsage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for BufferUsage {
    type Output = Self;

    /// Never below nothing.
    fn sub(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            files: self.files.saturating_sub(other.files),
        }
    }
}

impl SubAssign for BufferUsage {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for BufferUsage {
    fn sum<I: Iterator<Item = Self>>(rooms: I) -> Self {
        rooms.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn scratch() -> Scratch {
        Scratch::new(std::env::temp_dir())
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 % 251) as u8).collect()
    }

    #[test]
    fn what_is_spilled_goes_on_in_the_file() {
        let bytes = bytes(3 << 20);
        let mut held = Held::default();
        for (index, part) in bytes.chunks(100_000).enumerate() {
            held.extend(part, usize::MAX).unwrap();
            if index == 9 {
                held.spill(&mut scratch());
                let room = BufferUsage {
                    memory: 0,
                    files: 1_000_000,
                };
                assert_eq!(held.usage(), room);
            }
        }
        assert_eq!(held.len(), bytes.len());
        assert!(held.read(|held| held == bytes).unwrap());
        held.clear();
        assert!(held.is_empty() && !held.stays);
    }

    #[test]
    fn pages_are_given_back_while_they_are_read() {
        let length = 48 << 20;
        let mut held = Held::default();
        held.extend(&bytes(length), length).unwrap();
        held.spill(&mut scratch());
        held.read(|held| {
            for quarter in held.chunks(length / 4) {
                std::hint::black_box(memchr::memchr(255, quarter));
                let until = Instant::now() + Duration::from_secs(20);
                while resident(held) > length / 8 {
                    assert!(Instant::now() < until, "the pages stay");
                    thread::sleep(Duration::from_millis(1));
                }
            }
        })
        .unwrap();
    }

    /// Bytes of the mapping that begins with `bytes` that are resident in this process.
    fn resident(bytes: &[u8]) -> usize {
        let start = format!("{:x}-", bytes.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mapping = maps.lines().skip_while(|line| !line.starts_with(&start));
        let rss = mapping.skip(1).find_map(|line| line.strip_prefix("Rss:"));
        let kilobytes = rss.unwrap().trim().trim_end_matches("kB").trim();
        kilobytes.parse::<usize>().unwrap() * 1024
    }

    #[test]
    fn without_a_folder_it_stays_in_memory() {
        let mut held = Held::default();
        held.extend(b"some", usize::MAX).unwrap();
        held.spill(&mut Scratch::new("/nonexistent".into()));
        assert!(held.stays);
        held.extend(b"thing", usize::MAX).unwrap();
        assert!(held.read(|held| held == b"something").unwrap());
    }

    #[test]
    fn a_file_that_takes_no_more_is_read_back() {
        let mut held = Held::default();
        held.extend(b"some", usize::MAX).unwrap();
        held.spill(&mut scratch());
        // As on a full disk, writing fails from here on.
        let Storage::File { file, .. } = &mut held.storage else {
            panic!("it is not in a file");
        };
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        *file = File::open(path).unwrap();
        held.extend(b"thing", usize::MAX).unwrap();
        assert!(matches!(held.storage, Storage::Memory(_)) && held.stays);
        assert!(held.read(|held| held == b"something").unwrap());
    }
}
