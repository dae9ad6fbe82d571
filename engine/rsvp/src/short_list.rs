//! A list that is nearly always empty: then it takes eight bytes of a state block, and no heap memory.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// A list of a few items, which is mostly empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Few<T>(Option<Box<List<T>>>);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct List<T>(Vec<T>);

impl<T> Few<T> {
    /// The empty list.
    pub const NONE: Few<T> = Few(None);

    /// Changes the list as a `Vec`, and returns the closure's result.
    pub fn change<R>(&mut self, how: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let mut list = self.0.take().map_or_else(Vec::new, |list| list.0);
        let done = how(&mut list);
        *self = list.into();
        done
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(list: Vec<T>) -> Few<T> {
        if list.is_empty() { Few::NONE } else { Few(Some(Box::new(List(list)))) }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few::NONE
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| &list.0)
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |list| &mut list.0)
    }
}
