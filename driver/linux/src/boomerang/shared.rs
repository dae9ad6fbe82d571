//! A kernel map in our own memory (`BPF_F_MMAPABLE`): programs and user space see each other's writes at
//! once.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A type that may be stored in such a map.
///
/// # Safety
/// `repr(C)`, a multiple of eight bytes long, made of atomics and of integers that are never written: every
/// bit pattern is a value, and all fields that the kernel changes are atomic.
pub unsafe trait Shareable {}

// SAFETY: as demanded, see their definitions.
unsafe impl Shareable for super::layout::TableRow {}
// SAFETY: the same.
unsafe impl Shareable for super::layout::Wide {}
// SAFETY: the same.
unsafe impl Shareable for super::layout::InterfaceCell {}
// SAFETY: the same.
unsafe impl Shareable for super::layout::Settings {}

/// The values of an array map.
#[derive(Debug)]
pub struct Shared<T: Shareable> {
    at: NonNull<T>,
    len: usize,
    holds: PhantomData<T>,
}

// SAFETY: it is plain memory that lives until it is dropped, and all that changes in it is atomic.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: the same.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// Maps `len` values of an array map, which must have that many of exactly this size.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn map(map: BorrowedFd<'_>, len: usize) -> io::Result<Shared<T>> {
        let bytes = len.saturating_mul(size_of::<T>());
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice; the descriptor is open.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, map.as_raw_fd(), 0) };
        match NonNull::new(at.cast::<T>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Shared { at, len, holds: PhantomData }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// All values.
    pub fn all(&self) -> &[T] {
        // SAFETY: the mapping is that long, page-aligned, and lives as long as `self`; every bit pattern is a value,
        // and what changes is atomic.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Shareable> Drop for Shared<T> {
    fn drop(&mut self) {
        let bytes = self.len.saturating_mul(size_of::<T>());
        // SAFETY: this mapping is ours, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), bytes) };
    }
}
