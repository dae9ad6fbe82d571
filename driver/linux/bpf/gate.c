// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Chooses before the queue of the signalling sockets, where a flood would choose for us: what is about a session that has a
// reservation here always goes in. Of the rest only so much waits at a time; what is beyond is dropped here, which costs
// the flood's own processor time and none of the agent's.
//
//   kept    has the session of a reservation and, where messages have to be signed, an INTEGRITY (whose digest user
//           space checks): no limit but the queue's own
//   link    is between neighbours, of no session: Bundle, Ack, Hello, the answer to a challenge
//   rest    all else: set-ups, errors about unknown sessions, challenges, what cannot be read
//   sums    summaries of refreshes (Srefresh, RFC 2961), which keep up all state of a neighbour. Their room is their own:
//           acknowledgements of the same neighbour cannot take it
//
// Of link and sums one address takes at most half of the room, so that another's messages still find some.
//
// User space says which sessions are kept, by the hash below, and sets what was used back to zero when it has emptied the
// sockets. What is in the maps is a hint alone: who is wrongly kept waits with the others in user space's classes.
//
// Build: make -C driver/linux/bpf (clang-14).

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LINK 0
#define REST 1
#define SUMS 2
#define KINDS 4 // a power of two, for the verifier

#define PAGES 256 // of 4,096 counters of sessions, by their hash
#define PAGE 4096

#define SOURCES 256 // counters of what came from an address, by its hash

// Objects of a message that are looked at until its session is found: INTEGRITY and names may come before it.
#define MOST_OBJECTS 16

#define SESSION 1
#define INTEGRITY 4

struct settings {
    __u64 seed[2];
    __u64 used[KINDS]; // bytes of memory, about, since the sockets were empty
    __u64 room[KINDS];
    __u64 dropped[KINDS]; // messages
    __u8 keyed[256]; // whether messages have to be signed, by the last byte of the interface's index
    __u64 from[2][SOURCES]; // of what was used by link and by sums
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct settings);
} gate SEC(".maps");

struct page {
    __u8 sessions[PAGE];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PAGES);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct page);
} known SEC(".maps");

// Where the RSVP message begins: sockets show IPv4 and, in transit, IPv6 packets whole, and of IPv6 to this node the
// message alone.
static __always_inline int find_message(struct __sk_buff *skb, __u32 *at)
{
    __u8 first, next[2];
    if (bpf_skb_load_bytes(skb, 0, &first, 1))
        return -1;
    *at = 0;
    if (first >> 4 == 4)
        *at = (first & 15) * 4;
    if (first >> 4 != 6)
        return 0;
    *at = 40;
    if (bpf_skb_load_bytes(skb, 6, next, 1))
        return -1;
    if (next[0] != 0)
        return 0;
    if (bpf_skb_load_bytes(skb, 40, next, 2)) // hop-by-hop options: Router Alert
        return -1;
    *at += (next[1] + 1) * 8;
    return 0;
}

static __always_inline __u64 mixed(const struct settings *set, __u64 hash, __u64 word)
{
    hash = (hash ^ word) * (set->seed[1] | 1);
    return hash ^ hash >> 29;
}

// Whether a session has a reservation: its object without the header is at `at`.
static __always_inline int is_known(struct __sk_buff *skb, const struct settings *set, __u32 at, __u8 kind)
{
    struct {
        __u64 dst[2];
        __u8 protocol;
        __u8 flags;
        __be16 port;
    } s = {};
    __u8 *end = (void *)&s.protocol;
    if (kind == 1) {
        if (bpf_skb_load_bytes(skb, at, s.dst, 4) || bpf_skb_load_bytes(skb, at + 4, end, 4))
            return 0;
    } else if (kind != 2 || bpf_skb_load_bytes(skb, at, s.dst, 16) || bpf_skb_load_bytes(skb, at + 16, end, 4)) {
        return 0;
    }
    __u64 hash = mixed(set, set->seed[0], s.dst[0]);
    hash = mixed(set, hash, s.dst[1]);
    hash = mixed(set, hash, (__u64)kind << 32 | (__u64)s.protocol << 16 | bpf_ntohs(s.port));
    __u32 place = hash >> 44;
    __u32 page = place / PAGE & (PAGES - 1);
    struct page *there = bpf_map_lookup_elem(&known, &page);
    return there && there->sessions[place & (PAGE - 1)];
}

// LINK, REST, SUMS, or -1: kept.
static __always_inline int kind_of(struct __sk_buff *skb, const struct settings *set)
{
    __u8 head[8];
    __u32 at;
    int is_signed = 0;
    if (find_message(skb, &at) || bpf_skb_load_bytes(skb, at, head, sizeof(head)))
        return REST;
    int open = !set->keyed[skb->ifindex & 255];
    __u8 type = head[1];
    int is_link = type == 12 || type == 13 || type == 15 || type == 20 || type == 26;
    int link = type == 15 ? SUMS : LINK;
    at += 8;
    if (is_link && open)
        return link;
    // The messages of a Bundle are signed each by itself: the first speaks for all here, user space looks at each.
    if (type == 12)
        at += 8;
    for (int i = 0; i < MOST_OBJECTS; i++) {
        __u8 object[4];
        if (bpf_skb_load_bytes(skb, at, object, sizeof(object)))
            return REST;
        __u32 length = object[0] << 8 | object[1];
        if (object[2] == INTEGRITY)
            is_signed = 1;
        if (is_link && is_signed)
            return link;
        if (object[2] == SESSION)
            return (open || is_signed) && is_known(skb, set, at + 4, object[3]) ? -1 : REST;
        if (length < 4)
            return REST;
        at += length;
    }
    return REST;
}

// The counter of the address that a message comes from.
static __always_inline __u32 source_of(struct __sk_buff *skb, const struct settings *set)
{
    __u64 src[2] = {};
    __u8 first;
    if (bpf_skb_load_bytes_relative(skb, 0, &first, 1, BPF_HDR_START_NET))
        return 0;
    long none = first >> 4 == 4 ? bpf_skb_load_bytes_relative(skb, 12, src, 4, BPF_HDR_START_NET)
                                : bpf_skb_load_bytes_relative(skb, 8, src, 16, BPF_HDR_START_NET);
    return none ? 0 : mixed(set, mixed(set, set->seed[0], src[0]), src[1]) >> 56;
}

SEC("socket")
int sluice_gate(struct __sk_buff *skb)
{
    __u32 zero = 0;
    struct settings *set = bpf_map_lookup_elem(&gate, &zero);
    if (!set)
        return skb->len;
    int kind = kind_of(skb, set);
    if (kind < 0)
        return skb->len;
    kind &= KINDS - 1;
    __u32 source = kind == REST ? 0 : source_of(skb, set) & (SOURCES - 1);
    __u64 *from = kind == REST ? 0 : &set->from[kind == SUMS][source];
    if (set->used[kind] >= set->room[kind] || (from && *from >= set->room[kind] / 2)) {
        __sync_fetch_and_add(&set->dropped[kind], 1);
        return 0;
    }
    // What a packet takes of a socket's queue is about this.
    __u64 takes = 2 * skb->len + 1024;
    __sync_fetch_and_add(&set->used[kind], takes);
    if (from)
        __sync_fetch_and_add(from, takes);
    return skb->len;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
