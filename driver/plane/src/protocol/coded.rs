//! Values as bytes, and back: integers in little endian, lists with their length first.
//!
//! Any bytes may come: a value that is cut off, a number that is no variant and a length that is not there are
//! refused, and memory is taken only for what has come.

use crate::way::WayCounters;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{Bytes, Rate};
use traffic::dropper::RedCurve;

/// The rest of a message.
#[derive(Debug)]
pub(crate) struct Rest<'a>(pub(crate) &'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
}

/// A value that goes over the socket.
pub(crate) trait Coded: Sized {
    /// Writes it.
    fn put(&self, to: &mut Vec<u8>);

    /// Reads it; `None`: there is no such value.
    fn take(from: &mut Rest<'_>) -> Option<Self>;
}

macro_rules! integers {
    ($($kind:ty),*) => { $(
        impl Coded for $kind {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Rest<'_>) -> Option<Self> {
                from.array().map(<$kind>::from_le_bytes)
            }
        }
    )* };
}

integers!(u8, u16, u32, u64, i32);

impl<const N: usize> Coded for [u8; N] {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        from.array()
    }
}

impl Coded for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Coded for IpAddr {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            IpAddr::V4(v4) => {
                to.push(4);
                v4.octets().put(to);
            }
            IpAddr::V6(v6) => {
                to.push(6);
                v6.octets().put(to);
            }
        }
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        match u8::take(from)? {
            4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::take(from)?))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::take(from)?))),
            _ => None,
        }
    }
}

impl Coded for String {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        let count = u32::take(from)?;
        String::from_utf8(from.bytes(count as usize)?.to_vec()).ok()
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        let count = u32::take(from)? as usize;
        // No value is shorter than a byte.
        if count > from.0.len() {
            return None;
        }
        (0..count).map(|_| T::take(from)).collect()
    }
}

macro_rules! arrays {
    ($($kind:ty; $count:literal),*) => { $(
        impl Coded for [$kind; $count] {
            fn put(&self, to: &mut Vec<u8>) {
                self.iter().for_each(|value| value.put(to));
            }

            fn take(from: &mut Rest<'_>) -> Option<Self> {
                let all: Vec<$kind> = (0..$count).map(|_| Coded::take(from)).collect::<Option<_>>()?;
                all.try_into().ok()
            }
        }
    )* };
}

arrays!(Rate; 2, Rate; 3, Bytes; 2, Bytes; 3, RedCurve; 3, u64; 2, WayCounters; 2);

impl<K: Coded + Ord, V: Coded> Coded for BTreeMap<K, V> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        for (key, value) in self {
            key.put(to);
            value.put(to);
        }
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        Some(Vec::<(K, V)>::take(from)?.into_iter().collect())
    }
}

/// A struct, field by field.
macro_rules! record {
    ($name:ty { $($field:ident),* $(,)? }) => {
        impl Coded for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut Rest<'_>) -> Option<Self> {
                Some(Self { $($field: Coded::take(from)?),* })
            }
        }
    };
}

/// An enum, with a number before the fields of each variant.
macro_rules! variants {
    ($name:ty { $($number:literal $variant:ident $({ $($field:ident),* })?),* $(,)? }) => {
        impl Coded for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? => {
                        to.push($number);
                        $($($field.put(to);)*)?
                    })*
                }
            }

            fn take(from: &mut Rest<'_>) -> Option<Self> {
                match u8::take(from)? {
                    $($number => Some(Self::$variant $({ $($field: Coded::take(from)?),* })?),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {record, variants};
