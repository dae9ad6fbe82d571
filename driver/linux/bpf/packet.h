// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the programs at both sides of an interface share: the headers of a packet, and the token bucket that it is
// charged to.
//
// The bucket counts in bit-nanoseconds: a byte is 8e9 of them, `rate` bit/s adds `rate` of them each nanosecond. So
// it is exact, without division and without rounding; `traffic::bucket` is the same in Rust and a test holds the two
// together.

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define BYTE 8000000000ULL // bit-nanoseconds

#define ETH_IPV4 0x0800
#define ETH_ARP 0x0806
#define ETH_IPV6 0x86dd
#define RSVP 46
#define TCP 6
#define UDP 17
#define DCCP 33
#define ESP 50
#define AH 51
#define ICMPV6 58
#define SCTP 132
#define UDPLITE 136

// Code points of premium flows (RFC 3246, RFC 2597).
#define EF 46
#define AF11 10
#define AF12 12
#define AF13 14

struct flow_key {
    __u32 ifindex;
    __u8 src[16]; // IPv4: the first four bytes; all zero: any sender
    __u8 dst[16];
    __be16 src_port; // of ESP and AH the upper half of the security parameter index
    __be16 dst_port; // and the lower
    __u8 protocol;
    __u8 family; // 4 or 6
    __u8 wild[2]; // how many of the last bits of source and destination do not count; none of a packet's own
};

// What the program at the egress that knows whose a packet is leaves for those behind it, in the packet's first word of
// scratch; what it does not know it marks as well, because nobody else clears that.
#define UNKNOWN 0
#define JUDGED 1
// And in the third word, of a packet that it knows nothing of: that it has read the headers, and the protocol (0: of a later
// fragment), whose ports are in the second word, the destination's in the lower half.
#define READ 0x100

// Filled at a rate up to a depth.
struct bucket {
    __u64 rate;  // bit/s
    __u64 depth; // bit-nanoseconds
    __u64 fill;  // nanoseconds after which an empty bucket is full: depth / rate, rounded up
};

struct state {
    struct bpf_spin_lock lock;
    __u32 zero;
    __u64 level; // bit-nanoseconds
    __u64 last;  // when it was right
    __u64 packets;
    __u64 bytes;
    __u64 over_packets;
    __u64 over_bytes;
};

struct fragment_key {
    __u32 ifindex;
    __u8 src[16];
    __u8 dst[16];
    __u32 id;
    __u8 protocol;
    __u8 family;
    __u8 zero[2];
};

struct ports {
    __be16 src;
    __be16 dst;
};

// What the headers say.
struct packet {
    struct flow_key key;
    __u32 id;        // of the datagram, if it is a fragment
    __u32 length;    // IP bytes
    __u32 transport; // where the transport header begins
    __u8 fragment;   // 0: whole, 1: the first, 2: a later one
    __u8 dscp;       // code point
};

static __always_inline int load(struct __sk_buff *skb, __u32 at, void *to, __u32 len)
{
    return bpf_skb_load_bytes_relative(skb, at, to, len, BPF_HDR_START_NET);
}

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p)
{
    __u8 h[20];
    if (load(skb, 0, h, sizeof(h)))
        return -1;
    __u32 header = (h[0] & 15) * 4;
    if (h[0] >> 4 != 4 || header < sizeof(h))
        return -1;
    __u32 offset = (h[6] << 8 | h[7]) & 0x3fff; // more-fragments and the offset
    p->fragment = offset & 0x1fff ? 2 : offset ? 1 : 0;
    p->id = h[4] << 8 | h[5];
    p->length = h[2] << 8 | h[3];
    p->transport = header;
    p->key.family = 4;
    p->dscp = h[1] >> 2;
    p->key.protocol = h[9];
    __builtin_memcpy(p->key.src, h + 12, 4);
    __builtin_memcpy(p->key.dst, h + 16, 4);
    return 0;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p)
{
    __u8 h[40];
    if (load(skb, 0, h, sizeof(h)) || h[0] >> 4 != 6)
        return -1;
    __u32 payload = h[4] << 8 | h[5];
    __u32 at = sizeof(h);
    __u8 next = h[6];
    p->length = payload ? payload + sizeof(h) : 0;
    p->dscp = (h[0] & 15) << 2 | h[1] >> 6;
    p->key.family = 6;
    __builtin_memcpy(p->key.src, h + 8, 16);
    __builtin_memcpy(p->key.dst, h + 24, 16);
#pragma unroll
    for (int i = 0; i < 6; i++) {
        __u8 e[8];
        if (next != 0 && next != 43 && next != 44 && next != 60)
            break;
        if (load(skb, at, e, sizeof(e)))
            return -1;
        if (next == 44) {
            __u32 offset = (e[2] << 8 | e[3]) & 0xfff9; // the offset and more-fragments
            p->fragment = offset & 0xfff8 ? 2 : offset ? 1 : 0;
            p->id = (__u32)e[4] << 24 | e[5] << 16 | e[6] << 8 | e[7];
            at += 8;
        } else {
            at += (e[1] + 1) * 8;
        }
        next = e[0];
        if (p->fragment == 2)
            break;
    }
    p->transport = at;
    p->key.protocol = next;
    return 0;
}

// Where the ports lie in the transport header, or what stands for them; negative: nowhere.
static __always_inline int ports_at(__u8 protocol)
{
    if (protocol == UDP || protocol == TCP || protocol == SCTP || protocol == DCCP || protocol == UDPLITE)
        return 0;
    if (protocol == ESP)
        return 0;
    return protocol == AH ? 4 : -1;
}

static __always_inline void fragment_key(const struct packet *p, struct fragment_key *k)
{
    __builtin_memset(k, 0, sizeof(*k));
    k->ifindex = p->key.ifindex;
    __builtin_memcpy(k->src, p->key.src, 16);
    __builtin_memcpy(k->dst, p->key.dst, 16);
    k->id = p->id;
    k->protocol = p->key.protocol;
    k->family = p->key.family;
}

// What the packet is once it has been cut into segments: how many, how many IP bytes, and what the bucket is charged.
struct bill {
    __u32 packets;
    __u64 bytes;
    __u64 charge;
};

static __always_inline __u64 at_least(__u64 value, __u64 least)
{
    return value < least ? least : value;
}

static __always_inline void draw_up(struct __sk_buff *skb, const struct packet *p, __u32 min_unit, struct bill *b)
{
    __u32 length = p->length;
    // No length (jumbo), or one that leaves more unaccounted for than a link header and padding: all of it counts.
    if (!length || skb->len > length + 64)
        length = skb->len;
    b->packets = 1;
    b->bytes = length;
    b->charge = at_least(length, min_unit);
    __u32 size = skb->gso_size;
    if (!size)
        return;
    __u32 headers = p->transport;
    if (p->key.protocol == TCP) {
        __u8 doff = 0;
        if (load(skb, p->transport + 12, &doff, 1))
            return;
        headers += (doff >> 4) * 4;
    } else if (p->key.protocol == UDP) {
        headers += 8;
    }
    if (length <= headers)
        return;
    __u32 payload = length - headers;
    __u32 full = payload / size;
    __u32 rest = payload - full * size;
    b->packets = full + (rest ? 1 : 0);
    b->bytes = (__u64)payload + (__u64)b->packets * headers;
    b->charge = full * at_least((__u64)size + headers, min_unit);
    if (rest)
        b->charge += at_least((__u64)rest + headers, min_unit);
}

// Whether the packet conforms; counts it.
static __always_inline int police(const struct bucket *bucket, struct state *s, const struct bill *b)
{
    __u64 cost = b->charge * BYTE;
    __u64 now = bpf_ktime_get_ns();
    int conforms = 0;
    bpf_spin_lock(&s->lock);
    if (s->level > bucket->depth)
        s->level = bucket->depth; // it was made shallower
    if (now > s->last) {
        __u64 span = now - s->last;
        __u64 room = bucket->depth - s->level;
        // Below the fill time the product is less than the depth: it cannot overflow.
        if (span >= bucket->fill || span * bucket->rate >= room)
            s->level = bucket->depth;
        else
            s->level += span * bucket->rate;
        s->last = now;
    }
    if (s->level >= cost) {
        s->level -= cost;
        s->packets += b->packets;
        s->bytes += b->bytes;
        conforms = 1;
    } else {
        s->over_packets += b->packets;
        s->over_bytes += b->bytes;
    }
    bpf_spin_unlock(&s->lock);
    return conforms;
}
