//! Small files of the state folder: at any time the old one or the whole new one exists. A spoilt one does not keep a
//! broker from starting.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
pub(crate) fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let new = file.with_extension("new");
    let mut fresh = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    fresh.write_all(text)?;
    fresh.sync_all()?;
    fs::rename(&new, file)?;
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
        fs::create_dir(folder.join("webhooks.new")).unwrap();
        assert!(write(&file, b"[2]").is_err());
        assert_eq!(read(&file).unwrap().unwrap(), b"[1]");
        for bad in ["webhooks.bad", "webhooks.bad-1"] {
            fs::write(&file, b"").unwrap();
            assert_eq!(set_aside(&file).unwrap(), folder.join(bad));
            assert_eq!(read(&file).unwrap(), None);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
