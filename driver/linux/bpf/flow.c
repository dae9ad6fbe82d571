// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Classifies and polices what leaves an interface: flow -> (class, token bucket). One program for every interface
// of a node, at the egress (TCX or clsact); the cost of a packet does not grow with the number of flows.
//
// A packet belongs to the flow that names it most closely: its five-tuple; else its addresses and protocol alone;
// else any sender to its destination and port; else any sender to its destination. What is not the five-tuple is
// looked up only where such flows exist. Of ESP and AH the security parameter index stands where the ports would
// (RFC 2207). Flows may name one slot, and are policed together then.
//
//   conforming          skb->priority = the flow's HTB class (HTB takes a class id in the priority as it stands)
//   in excess           skb->priority = 0: HTB's default class, best effort (RFC 2211 section 3, RFC 2212 section 5)
//   RSVP, ARP, ND       the control class
//   all else            a priority that names one of our classes is wiped: no application chooses its class
//
// User space alone writes `flows`, this program alone writes `states` (a new flow's slot is written before the flow
// is); so a change of class or bucket never loses a count. An update puts a new element in the old one's place; at
// worst a packet that is just being policed while two updates follow each other is judged by the newer numbers.
//
// The bucket counts in bit-nanoseconds: a byte is 8e9 of them, `rate` bit/s adds `rate` of them each nanosecond. So
// it is exact, without division and without rounding; `traffic::bucket` is the same in Rust and a test holds the two
// together.
//
// Build: make -C driver/linux/bpf (clang-14); the object is shipped, and a test rebuilds and compares it.

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAJOR 0x5c1c // the major number of our root qdisc, on every interface
#define CONTROL (((__u32)MAJOR << 16) | 3)
#define BYTE 8000000000ULL // bit-nanoseconds

#define TCX_NEXT -1 // which clsact calls TC_ACT_UNSPEC: the next program or filter sees the packet too
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

struct flow_key {
    __u32 ifindex;
    __u8 src[16]; // IPv4: the first four bytes; all zero: any sender
    __u8 dst[16];
    __be16 src_port; // of ESP and AH the upper half of the security parameter index
    __be16 dst_port; // and the lower
    __u8 protocol;
    __u8 family; // 4 or 6
    __u8 zero[2];
};

struct flow {
    __u32 slot;     // index into states; flows that share a bucket have the same
    __u32 priority; // major:minor of the class
    __u64 rate;     // bit/s
    __u64 depth;    // bit-nanoseconds
    __u64 fill;     // nanoseconds after which an empty bucket is full: depth / rate, rounded up
    __u32 min_unit; // a shorter packet counts as this long
    __u32 version;  // of what follows, which only user space reads
    __u8 record[144];
};

// How many flows there are of each kind that is not a whole five-tuple.
struct kinds {
    __u32 without_ports;
    __u32 of_any_sender;
    __u32 of_any_sender_without_ports;
    __u32 zero;
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

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct flow_key);
    __type(value, struct flow);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 65536);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct state);
} states SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct kinds);
} kinds SEC(".maps");

// The ports of datagrams under way whose first fragment belonged to a flow.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct fragment_key);
    __type(value, struct ports);
} fragments SEC(".maps");

struct class_key {
    __u32 ifindex;
    __u32 class;
};

struct class_record {
    __u8 bytes[64];
};

// What each class was told, beside what the kernel made of it; only user space reads and writes it.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct class_key);
    __type(value, struct class_record);
} classes SEC(".maps");

// What the headers say.
struct packet {
    struct flow_key key;
    __u32 id;        // of the datagram, if it is a fragment
    __u32 length;    // IP bytes
    __u32 transport; // where the transport header begins
    __u8 fragment;   // 0: whole, 1: the first, 2: a later one
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

// The flows that may have a packet whose five-tuple none has, the closest first.
static __always_inline struct flow *find_wider(const struct packet *p, int *with_ports)
{
    __u32 zero = 0;
    struct kinds *there = bpf_map_lookup_elem(&kinds, &zero);
    struct flow *flow = 0;
    if (!there || !(there->without_ports | there->of_any_sender | there->of_any_sender_without_ports))
        return 0;
    struct flow_key k = p->key;
    k.src_port = 0;
    if (there->without_ports) {
        k.dst_port = 0;
        flow = bpf_map_lookup_elem(&flows, &k);
        k.dst_port = p->key.dst_port;
    }
    if (flow)
        return flow;
    __builtin_memset(k.src, 0, sizeof(k.src));
    if (there->of_any_sender) {
        flow = bpf_map_lookup_elem(&flows, &k);
        if (flow)
            *with_ports = 1;
    }
    if (flow || !there->of_any_sender_without_ports)
        return flow;
    k.dst_port = 0;
    return bpf_map_lookup_elem(&flows, &k);
}

static __always_inline struct flow *find(struct __sk_buff *skb, struct packet *p)
{
    int at = ports_at(p->key.protocol);
    struct ports ports = {};
    struct fragment_key k;
    if (at >= 0 && p->fragment == 2) {
        fragment_key(p, &k);
        struct ports *known = bpf_map_lookup_elem(&fragments, &k);
        if (known)
            ports = *known;
    } else if (at >= 0) {
        if (load(skb, p->transport + at, &ports, sizeof(ports)))
            return 0;
    }
    p->key.src_port = ports.src;
    p->key.dst_port = ports.dst;
    int with_ports = at >= 0;
    struct flow *flow = bpf_map_lookup_elem(&flows, &p->key);
    if (!flow) {
        with_ports = 0;
        flow = find_wider(p, &with_ports);
    }
    if (flow && with_ports && p->fragment == 1) {
        fragment_key(p, &k);
        bpf_map_update_elem(&fragments, &k, &ports, BPF_ANY);
    }
    return flow;
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
static __always_inline int police(const struct flow *flow, struct state *s, const struct bill *b)
{
    __u64 cost = b->charge * BYTE;
    __u64 now = bpf_ktime_get_ns();
    int conforms = 0;
    bpf_spin_lock(&s->lock);
    if (s->level > flow->depth)
        s->level = flow->depth; // it was made shallower
    if (now > s->last) {
        __u64 span = now - s->last;
        __u64 room = flow->depth - s->level;
        // Below the fill time the product is less than the depth: it cannot overflow.
        if (span >= flow->fill || span * flow->rate >= room)
            s->level = flow->depth;
        else
            s->level += span * flow->rate;
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

static __always_inline int is_neighbour_discovery(struct __sk_buff *skb, const struct packet *p)
{
    __u8 type = 0;
    if (p->key.protocol != ICMPV6 || p->fragment == 2 || load(skb, p->transport, &type, 1))
        return 0;
    return type >= 133 && type <= 137; // RFC 4861 section 4
}

// The priority that the packet leaves with; 0: none of ours.
static __always_inline __u32 classify(struct __sk_buff *skb)
{
    struct packet p = {};
    p.key.ifindex = skb->ifindex;
    __u32 protocol = bpf_ntohs(skb->protocol);
    if (protocol == ETH_ARP)
        return CONTROL;
    if (protocol == ETH_IPV4) {
        if (parse_ipv4(skb, &p))
            return 0;
    } else if (protocol == ETH_IPV6) {
        if (parse_ipv6(skb, &p))
            return 0;
        if (is_neighbour_discovery(skb, &p))
            return CONTROL;
    } else {
        return 0;
    }
    if (p.key.protocol == RSVP)
        return CONTROL;
    struct flow *flow = find(skb, &p);
    if (!flow)
        return 0;
    __u32 slot = flow->slot;
    struct state *state = bpf_map_lookup_elem(&states, &slot);
    if (!state)
        return 0;
    struct bill bill;
    draw_up(skb, &p, flow->min_unit, &bill);
    return police(flow, state, &bill) ? flow->priority : 0;
}

SEC("classifier")
int sluice_egress(struct __sk_buff *skb)
{
    __u32 given = skb->priority;
    // One load before and one store after: a pointer to the field, kept across, is what the verifier refuses.
    asm volatile("" : "+r"(given));
    __u32 priority = classify(skb);
    if (!priority)
        priority = given >> 16 == MAJOR ? 0 : given;
    skb->priority = priority;
    return TCX_NEXT;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
