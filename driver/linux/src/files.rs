//! Sockets and files in places that other users may write: no other user can interfere between their making
//! and their use.

use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// The longest path of a socket, bytes.
const LONGEST_PATH: usize = 107;

/// Listens at `path`; a stale socket there is replaced. The socket has mode 0660 and is given to `group` if
/// there is one. Until then only this user can connect.
///
/// # Errors
/// Another process listens there, there is a file of another kind, or the socket cannot be made.
pub fn listen(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match fs::symlink_metadata(path) {
        // Only what a program leaves when it is killed is in the way; anything else is not ours to remove.
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("there is a file that is no socket")),
        Err(_) => {}
    }
    let socket = bind(path)?;
    if let Some(group) = group {
        std::os::unix::fs::chown(path, None, Some(group))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    net::listen(&socket, libc::SOMAXCONN)?;
    Ok(UnixListener::from(socket))
}

/// A bound socket with mode 0600 that does not listen yet: a mode that is set before bind(2) holds for the
/// new file (unix(7), "Pathname socket ownership and permissions").
fn bind(path: &Path) -> io::Result<OwnedFd> {
    // The kernel takes 108 bytes without an end too; others that read the path do not.
    if path.as_os_str().is_empty() || path.as_os_str().len() > LONGEST_PATH {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket's path has at most 107 bytes"));
    }
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Opens a plain file of ours for reading and writing, or makes it; it never follows a symbolic link, which
/// another user may have put there.
///
/// # Errors
/// The path is a link or no plain file, or it cannot be opened.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("there is something that is no file")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_connects_before_it_is_given_away() {
        let dir = std::env::temp_dir().join(format!("sluice-listen-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("s.sock");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let early = bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600, "from its first instant, whatever the umask");
        assert!(UnixStream::connect(&path).is_err(), "and it does not listen");
        drop(early);
        let listener = listen(&path, None).unwrap();
        assert_eq!(mode(&path), 0o660);
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(listen(&path, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        listen(&path, None).unwrap(); // what is left is replaced
        let file = dir.join("file");
        fs::write(&file, "x").unwrap();
        assert!(listen(&file, None).is_err() && fs::read(&file).unwrap() == b"x", "a file stays");
        assert!(listen(&dir.join("x".repeat(120)), None).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn links_are_not_followed() {
        let dir = std::env::temp_dir().join(format!("sluice-plain-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (there, link, dangling) = (dir.join("there"), dir.join("link"), dir.join("dangling"));
        fs::write(&there, "theirs").unwrap();
        std::os::unix::fs::symlink(&there, &link).unwrap();
        std::os::unix::fs::symlink(dir.join("nothing"), &dangling).unwrap();
        for wrong in [&link, &dangling, &dir] {
            assert!(open_plain(wrong).is_err(), "{}", wrong.display());
        }
        assert!(open_plain(&there).is_ok() && open_plain(&dir.join("new")).is_ok());
        assert!(!dir.join("nothing").exists() && fs::read(&there).unwrap() == b"theirs");
        fs::remove_dir_all(&dir).unwrap();
    }
}
