//! Small files of the state folder: at any time the old one or the whole new one exists. A spoilt one does not keep a
//! broker from starting.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of spoilt files that are kept; then the oldest is replaced.
const ASIDE: u32 = 16;
/// The longest file, bytes.
pub(crate) const MAX_FILE: u64 = 4 << 20;

/// Reads the file; `None`: there is none.
pub(crate) fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = match fs::File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other("too large"));
    }
    Ok(Some(text))
}

/// Writes the file. The bytes are on the disk before they have the name, and the name before this returns:
/// otherwise a power loss may leave an empty file under it (rename(2) orders nothing).
///
/// Several may write at once: the last rename wins, whole.
pub(crate) fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    // Its own name for each write: two that share one would write over each other, or rename the other's half.
    write_by(file, &file.with_extension(format!("new-{}-{number}", std::process::id())), text)
}

/// Writes the file by way of `new`, which is gone afterwards, unless the process dies meanwhile.
fn write_by(file: &Path, new: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut fresh = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    let written = fresh.write_all(text).and_then(|()| fresh.sync_all()).and_then(|()| fs::rename(new, file));
    if let Err(error) = written {
        // What cannot be removed stays beside the file, and nobody reads it.
        let _ = fs::remove_file(new);
        return Err(error);
    }
    fs::File::open(folder)?.sync_all()
}

/// Gives an unreadable file another name, and returns it.
pub(crate) fn set_aside(file: &Path) -> io::Result<PathBuf> {
    let name = |n: u32| file.with_extension(format!("bad{}", if n == 0 { String::new() } else { format!("-{n}") }));
    let free = (0..ASIDE).map(name).find(|path| !path.exists());
    let aside = free.unwrap_or_else(|| name(0));
    fs::rename(file, &aside)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_or_as_it_was_and_a_spoilt_one_goes_aside() {
        let folder = std::env::temp_dir().join(format!("sluice-hooks-{}", std::process::id()));
        let file = folder.join("webhooks.json");
        assert_eq!(read(&file).unwrap(), None);
        write(&file, b"[1]").unwrap();
        // Something is in the way of the new one: the old one stays.
        let new = folder.join("webhooks.new");
        fs::create_dir(&new).unwrap();
        assert!(write_by(&file, &new, b"[2]").is_err());
        assert_eq!(read(&file).unwrap().unwrap(), b"[1]");
        for bad in ["webhooks.bad", "webhooks.bad-1"] {
            fs::write(&file, b"").unwrap();
            assert_eq!(set_aside(&file).unwrap(), folder.join(bad));
            assert_eq!(read(&file).unwrap(), None);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Writers at once: none fails, the file is always one of their texts, and nothing stays beside it.
    #[test]
    fn writers_at_once_leave_one_whole_file() {
        let folder = std::env::temp_dir().join(format!("sluice-writers-{}", std::process::id()));
        let file = folder.join("webhooks.json");
        std::thread::scope(|scope| {
            for letter in b'a'..b'e' {
                let file = &file;
                scope.spawn(move || {
                    let text = vec![letter; 1_000 * usize::from(letter - b'a' + 1)];
                    for _ in 0..50 {
                        write(file, &text).unwrap();
                        let seen = read(file).unwrap().unwrap();
                        let whole = seen.len() == 1_000 * usize::from(seen[0] - b'a' + 1);
                        assert!(whole && seen.iter().all(|byte| *byte == seen[0]), "{} bytes", seen.len());
                    }
                });
            }
        });
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["webhooks.json"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
