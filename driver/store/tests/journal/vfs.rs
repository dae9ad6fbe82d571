//! A layer between SQLite and its files (<https://www.sqlite.org/vfs.html>): it passes everything on, keeps the model of the
//! disk beside it, counts syncs, and fails when it is told to.

use crate::disk::{Change, Disk, Model};
use rusqlite::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex};

/// Is shown the disk.
pub type Look = Box<dyn FnMut(&Disk) + Send>;

/// What is seen and told.
#[derive(Default)]
pub struct State {
    /// The files.
    pub disk: Disk,
    /// Completed syncs.
    pub syncs: u64,
    /// Writes that reached a file.
    pub writes: u64,
    /// Called before each sync.
    pub before_sync: Option<Look>,
    /// Called before each write.
    pub before_write: Option<Look>,
    /// After so many more syncs, one fails.
    pub fail_sync_in: Option<u64>,
    /// Whether the disk is full.
    pub full: bool,
    /// After so many more writes it is.
    pub full_in: Option<u64>,
}

/// A registered layer.
#[derive(Clone)]
pub struct Layer {
    /// Its name, for [`store::sqlite::SqliteOptions`].
    pub name: String,
    /// What it sees.
    pub state: Arc<Mutex<State>>,
}

struct Shared {
    below: *mut ffi::sqlite3_vfs,
    state: Arc<Mutex<State>>,
}

/// One open file: SQLite's own first, ours, and the file below behind it in the same memory.
#[repr(C)]
struct Open {
    base: ffi::sqlite3_file,
    shared: *const Shared,
    /// Of watched files.
    path: *mut PathBuf,
}

impl Layer {
    /// Registers a layer over SQLite's usual one. It is never taken away: a test's process is short.
    pub fn register(name: &str) -> Layer {
        let state = Arc::new(Mutex::new(State::default()));
        let c_name = CString::new(name).unwrap();
        // SAFETY: the usual layer is a static of SQLite; what is leaked lives as long as the process.
        unsafe {
            let below = ffi::sqlite3_vfs_find(ptr::null());
            assert!(!below.is_null());
            let shared = Box::into_raw(Box::new(Shared { below, state: state.clone() }));
            let mut vfs: ffi::sqlite3_vfs = *below;
            vfs.szOsFile = size_of::<Open>() as c_int + (*below).szOsFile;
            vfs.pNext = ptr::null_mut();
            vfs.zName = c_name.into_raw();
            vfs.pAppData = shared.cast();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            vfs.xAccess = Some(access);
            vfs.xFullPathname = Some(full_pathname);
            vfs.iVersion = 1;
            let rc = ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0);
            assert_eq!(rc, ffi::SQLITE_OK);
        }
        Layer { name: name.to_owned(), state }
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

unsafe fn shared<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Shared {
    // SAFETY: `register` put it there and never takes it away.
    unsafe { &*(*vfs).pAppData.cast::<Shared>() }
}

unsafe fn below(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: szOsFile leaves room for the file below behind ours.
    unsafe { file.cast::<Open>().add(1).cast() }
}

/// The model of a watched file, and everything else.
unsafe fn watched<T>(file: *mut ffi::sqlite3_file, tell: impl FnOnce(&mut State, &PathBuf) -> T) -> Option<T> {
    // SAFETY: SQLite gives back what `open` filled in.
    let open = unsafe { &*file.cast::<Open>() };
    if open.path.is_null() {
        return None;
    }
    // SAFETY: both live until `close`.
    let (shared, path) = unsafe { (&*open.shared, &*open.path) };
    Some(tell(&mut shared.state.lock().unwrap(), path))
}

unsafe fn model<T>(file: *mut ffi::sqlite3_file, tell: impl FnOnce(&mut Model) -> T) -> Option<T> {
    // SAFETY: as above.
    unsafe { watched(file, |state, path| tell(state.disk.entry(path.clone()).or_default())) }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's contract of xOpen; the memory behind `file` is szOsFile bytes.
    unsafe {
        let shared = shared(vfs);
        let rc = ((*shared.below).xOpen.unwrap())(shared.below, name, below(file), flags, out);
        let ours = &mut *file.cast::<Open>();
        ours.base.pMethods = ptr::null();
        ours.path = ptr::null_mut();
        ours.shared = shared;
        if rc != ffi::SQLITE_OK {
            return rc;
        }
        ours.base.pMethods = &METHODS;
        if flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) != 0 && !name.is_null() {
            let path = PathBuf::from(CStr::from_ptr(name).to_str().unwrap());
            let durable = std::fs::read(&path).unwrap_or_default();
            let mut state = shared.state.lock().unwrap();
            state.disk.insert(path.clone(), Model { durable, pending: Vec::new() });
            ours.path = Box::into_raw(Box::new(path));
        }
        rc
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the last use of both.
    unsafe {
        let ours = &mut *file.cast::<Open>();
        if !ours.path.is_null() {
            drop(Box::from_raw(ours.path));
            ours.path = ptr::null_mut();
        }
        let under = below(file);
        ((*(*under).pMethods).xClose.unwrap())(under)
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: `from` has `len` bytes, says SQLite.
    unsafe {
        let full = watched(file, |state, _| {
            if let Some(look) = &mut state.before_write {
                look(&state.disk);
            }
            if let Some(left) = &mut state.full_in {
                *left = left.saturating_sub(1);
                state.full |= *left == 0;
            }
            state.full
        });
        if full == Some(true) {
            return ffi::SQLITE_FULL;
        }
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len as usize).to_vec();
        model(file, |model| model.pending.push(Change::Write(at as usize, bytes)));
        watched(file, |state, _| state.writes += 1);
        let under = below(file);
        ((*(*under).pMethods).xWrite.unwrap())(under, from, len, at)
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: passed on.
    unsafe {
        model(file, |model| model.pending.push(Change::Length(len as usize)));
        let under = below(file);
        ((*(*under).pMethods).xTruncate.unwrap())(under, len)
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: passed on.
    unsafe {
        let fails = watched(file, |state, _| {
            if let Some(look) = &mut state.before_sync {
                look(&state.disk);
            }
            let left = state.fail_sync_in.as_mut()?;
            *left = left.checked_sub(1)?;
            (*left == 0).then_some(())
        });
        if fails.flatten().is_some() {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        let under = below(file);
        let rc = ((*(*under).pMethods).xSync.unwrap())(under, flags);
        watched(file, |state, path| {
            state.disk.entry(path.clone()).or_default().settle();
            state.syncs += 1;
        });
        rc
    }
}

/// What is passed on as it is.
macro_rules! passed_on {
    ($($name:ident, $method:ident($($arg:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $arg: $type)*) -> c_int {
            // SAFETY: the file below was opened when ours was.
            unsafe {
                let under = below(file);
                ((*(*under).pMethods).$method.unwrap())(under $(, $arg)*)
            }
        }
    )*};
}

passed_on! {
    read, xRead(to: *mut c_void, len: c_int, at: i64);
    file_size, xFileSize(len: *mut i64);
    lock, xLock(kind: c_int);
    unlock, xUnlock(kind: c_int);
    check_reserved_lock, xCheckReservedLock(out: *mut c_int);
    file_control, xFileControl(what: c_int, with: *mut c_void);
    sector_size, xSectorSize();
    device_characteristics, xDeviceCharacteristics();
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: passed on to the layer below.
    unsafe {
        let shared = shared(vfs);
        ((*shared.below).xDelete.unwrap())(shared.below, name, sync)
    }
}

unsafe extern "C" fn access(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: passed on to the layer below.
    unsafe {
        let shared = shared(vfs);
        ((*shared.below).xAccess.unwrap())(shared.below, name, flags, out)
    }
}

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    len: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: passed on to the layer below.
    unsafe {
        let shared = shared(vfs);
        ((*shared.below).xFullPathname.unwrap())(shared.below, name, len, out)
    }
}
