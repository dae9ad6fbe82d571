//! Netlink messages and attributes (RFC 3549 section 2.3; `linux/netlink.h`). Reading never panics: malformed
//! bytes end the iteration.

/// The length of `struct nlmsghdr`.
pub const HEADER: usize = 16;

/// The flag of an attribute that contains attributes.
const NESTED: u16 = 0x8000;
/// The bits of an attribute's type that are its number.
const TYPE_MASK: u16 = 0x3fff;

/// A request being built: header, family header, attributes.
#[derive(Clone, Debug)]
pub struct NetlinkMessage {
    bytes: Vec<u8>,
}

impl NetlinkMessage {
    /// A request of type `ty` with `flags` (NLM_F_REQUEST is always set) and the family's own header.
    pub fn new(ty: u16, flags: u16, family_header: &[u8]) -> NetlinkMessage {
        let mut bytes = vec![0; HEADER];
        put(&mut bytes, 4, &ty.to_ne_bytes());
        put(&mut bytes, 6, &(flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
        bytes.extend_from_slice(family_header);
        let mut message = NetlinkMessage { bytes };
        message.pad();
        message
    }

    /// Adds raw bytes (the header that some nests begin with).
    pub fn raw(mut self, bytes: &[u8]) -> NetlinkMessage {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Adds an attribute.
    pub fn attr(mut self, ty: u16, value: &[u8]) -> NetlinkMessage {
        let len = (4 + value.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&ty.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds a 32-bit attribute, host order.
    pub fn attr_u32(self, ty: u16, value: u32) -> NetlinkMessage {
        self.attr(ty, &value.to_ne_bytes())
    }

    /// Adds a 64-bit attribute, host order.
    pub fn attr_u64(self, ty: u16, value: u64) -> NetlinkMessage {
        self.attr(ty, &value.to_ne_bytes())
    }

    /// Adds a string attribute with its terminating zero.
    pub fn attr_str(self, ty: u16, value: &str) -> NetlinkMessage {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(ty, &bytes)
    }

    /// Adds an attribute that contains the attributes added by `fill`.
    pub fn nest(mut self, ty: u16, fill: impl FnOnce(NetlinkMessage) -> NetlinkMessage) -> NetlinkMessage {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(ty | NESTED).to_ne_bytes());
        let mut message = fill(self);
        let len = (message.bytes.len() - at) as u16;
        put(&mut message.bytes, at, &len.to_ne_bytes());
        message
    }

    /// The finished bytes, with length, sequence number and further flags filled in.
    pub fn finish(mut self, sequence: u32, flags: u16) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        put(&mut self.bytes, 0, &len.to_ne_bytes());
        let all = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | flags;
        put(&mut self.bytes, 6, &all.to_ne_bytes());
        put(&mut self.bytes, 8, &sequence.to_ne_bytes());
        self.bytes
    }

    fn pad(&mut self) {
        self.bytes.resize(align(self.bytes.len()), 0);
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

const fn align(len: usize) -> usize {
    (len + 3) & !3
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    /// Type.
    pub ty: u16,
    /// Flags.
    pub flags: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Family header and attributes.
    pub body: &'a [u8],
}

/// The messages of one datagram.
#[derive(Clone, Debug)]
pub struct NetlinkMessages<'a> {
    rest: &'a [u8],
}

impl<'a> NetlinkMessages<'a> {
    /// The messages in the bytes of a datagram.
    pub fn new(datagram: &'a [u8]) -> NetlinkMessages<'a> {
        NetlinkMessages { rest: datagram }
    }
}

impl<'a> Iterator for NetlinkMessages<'a> {
    type Item = MessageView<'a>;

    fn next(&mut self) -> Option<MessageView<'a>> {
        let len = u32_at(self.rest, 0)? as usize;
        if len < HEADER || len > self.rest.len() {
            return None;
        }
        let view = MessageView {
            ty: u16_at(self.rest, 4)?,
            flags: u16_at(self.rest, 6)?,
            sequence: u32_at(self.rest, 8)?,
            body: &self.rest[HEADER..len],
        };
        self.rest = self.rest.get(align(len)..).unwrap_or(&[]);
        Some(view)
    }
}

/// The attributes after a family header, or within a nest.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes that begin `skip` bytes into `body`.
    pub fn after(body: &'a [u8], skip: usize) -> Attributes<'a> {
        Attributes { rest: body.get(align(skip)..).unwrap_or(&[]) }
    }

    /// The value of the first attribute of this type.
    pub fn get(self, ty: u16) -> Option<&'a [u8]> {
        self.into_iter().find(|&(t, _)| t == ty).map(|(_, value)| value)
    }

    /// A 32-bit value, host order.
    pub fn u32(self, ty: u16) -> Option<u32> {
        u32_at(self.get(ty)?, 0)
    }

    /// A 64-bit value, host order.
    pub fn u64(self, ty: u16) -> Option<u64> {
        u64_at(self.get(ty)?, 0)
    }

    /// A string without its terminating zero; bytes that are not UTF-8 are replaced.
    pub fn string(self, ty: u16) -> Option<String> {
        let bytes = self.get(ty)?;
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The attributes inside the first attribute of this type; none if it is absent.
    pub fn nest(self, ty: u16) -> Attributes<'a> {
        Attributes { rest: self.get(ty).unwrap_or(&[]) }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let len = u16_at(self.rest, 0)? as usize;
        if len < 4 || len > self.rest.len() {
            return None;
        }
        let item = (u16_at(self.rest, 2)? & TYPE_MASK, &self.rest[4..len]);
        self.rest = self.rest.get(align(len)..).unwrap_or(&[]);
        Some(item)
    }
}

/// Two bytes, host order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Four bytes, host order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Eight bytes, host order.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read() {
        let bytes = NetlinkMessage::new(16, 0, &[1, 2, 3])
            .attr_u32(5, 77)
            .nest(9, |m| m.attr_str(1, "veth").attr(2, &[7]))
            .attr_u64(6, 1 << 40)
            .finish(3, libc::NLM_F_ACK as u16);
        let view = NetlinkMessages::new(&bytes).next().expect("one message");
        assert_eq!((view.ty, view.sequence), (16, 3));
        assert_eq!(view.flags, (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16);
        let attributes = Attributes::after(view.body, 3);
        assert_eq!(attributes.u32(5), Some(77));
        assert_eq!(attributes.u64(6), Some(1 << 40));
        assert_eq!(attributes.nest(9).string(1).as_deref(), Some("veth"));
        assert_eq!(attributes.nest(9).get(2), Some(&[7][..]));
        assert_eq!(attributes.get(4), None);
    }

    #[test]
    fn any_bytes_end_the_iteration() {
        // Every truncation of a real message, and every byte of it replaced by the two extremes.
        let good = NetlinkMessage::new(20, 0, &[0; 20]).attr_u32(1, 1).nest(2, |m| m.attr_str(1, "htb")).finish(1, 0);
        let walk = |bytes: &[u8]| {
            for view in NetlinkMessages::new(bytes) {
                let inside = Attributes::after(view.body, 20);
                for (ty, value) in inside {
                    let _ = (inside.u32(ty), inside.u64(ty), inside.string(ty), value.len());
                    assert!(inside.nest(ty).count() <= value.len());
                }
            }
        };
        for cut in 0..good.len() {
            walk(&good[..cut]);
        }
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                walk(&bad);
            }
        }
    }
}
