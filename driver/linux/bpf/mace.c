// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Flows that never signalled (engine/mace): behind the flow program, counts what each class brings, and recognises the
// flows of listed applications among the packets that no flow claimed.
//
//   port -> threshold   an array for each protocol: what no application has costs one look-up
//   candidates          rows of four, by a keyed hash of the five-tuple; a full row loses the one that was silent longest
//   at the threshold    one event over the ring; then the candidate is quiet for a while
//
// A candidate is known by 64 bits of its hash: who does not know the key cannot make two flows share them. Two processors
// that count one flow at once may lose a packet of the count, which only asks a little later.
//
// Build: make -C driver/linux/bpf (clang-14); the object is shipped, and a test rebuilds and compares it.

#include "packet.h"

#define MAJOR 0x5c1c
#define TCX_NEXT -1
#define CLASSES 16 // those that every interface has or may have
#define WAYS 4
#define PORTS 65536
#define QUIET 0xffffffff // instead of a count: it was told, and `seen` is when it may be told again
#define SECOND 1000000000ULL

struct settings {
    __u64 key[2];
    __u32 mask;  // rows - 1
    __u32 quiet; // seconds
};

struct candidate {
    __u64 tag; // 0: nobody
    __u32 packets;
    __u32 seen; // second of its last packet
};

struct row {
    struct candidate place[WAYS];
};

// What user space hears.
struct recognised {
    struct flow_key key;
    __u32 packets;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct settings);
} mace_settings SEC(".maps");

// How many packets make a flow of this port; 0: no application has it. UDP first, then TCP.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 2 * PORTS);
    __type(key, __u32);
    __type(value, __u32);
} mace_ports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, struct row);
} mace_rows SEC(".maps");

// Bytes of each class as they come in, link headers included.
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, CLASSES);
    __type(key, __u32);
    __type(value, __u64);
} mace_arrived SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 65536);
} mace_told SEC(".maps");

static __always_inline __u64 mix(__u64 state, __u64 word)
{
    state = (state ^ word) * 0x9e3779b97f4a7c15ULL;
    return state ^ state >> 29;
}

static __always_inline __u64 tag_of(const struct settings *set, const struct flow_key *k)
{
    __u64 word[4];
    __builtin_memcpy(word, k->src, sizeof(word)); // and dst, which follows
    __u64 ports = (__u64)k->src_port << 32 | (__u64)k->dst_port << 16 | k->protocol;
    __u64 tag = mix(set->key[0], ports);
    tag = mix(mix(mix(mix(tag, word[0]), word[1]), word[2]), word[3]);
    tag = mix(mix(tag, set->key[1]), k->ifindex);
    return tag ? tag : 1;
}

// Of a packet with these ports, the destination's in the lower half; 0: no application has them.
static __always_inline __u32 threshold_of(__u8 protocol, __u32 ports)
{
    if (protocol != UDP && protocol != TCP)
        return 0;
    __u32 base = protocol == TCP ? PORTS : 0, at = base + (ports & 0xffff);
    __u32 *packets = bpf_map_lookup_elem(&mace_ports, &at);
    if (packets && *packets)
        return *packets;
    at = base + (ports >> 16);
    packets = bpf_map_lookup_elem(&mace_ports, &at);
    return packets ? *packets : 0;
}

// The candidate's place: its own, or that of the one that was silent longest.
static __always_inline struct candidate *place_of(struct row *row, __u64 tag)
{
    struct candidate *oldest = &row->place[0];
#pragma unroll
    for (int i = 0; i < WAYS; i++) {
        struct candidate *c = &row->place[i];
        if (c->tag == tag)
            return c;
        if (c->seen < oldest->seen)
            oldest = c;
    }
    oldest->tag = tag;
    oldest->packets = 0;
    oldest->seen = 0;
    return oldest;
}

static __always_inline int tell(const struct packet *p, __u32 packets)
{
    struct recognised *told = bpf_ringbuf_reserve(&mace_told, sizeof(*told), 0);
    if (!told)
        return -1;
    told->key = p->key;
    told->packets = packets;
    bpf_ringbuf_submit(told, 0);
    return 0;
}

static __always_inline void consider(struct __sk_buff *skb)
{
    struct packet p = {};
    struct ports ports;
    __u32 zero = 0, protocol = bpf_ntohs(skb->protocol), read = skb->cb[2];
    // The flow program has read the ports: most packets end here, without a look at their headers.
    if (read & READ && !threshold_of(read, skb->cb[1]))
        return;
    p.key.ifindex = skb->ifindex;
    if (protocol == ETH_IPV4) {
        if (parse_ipv4(skb, &p))
            return;
    } else if (protocol != ETH_IPV6 || parse_ipv6(skb, &p)) {
        return;
    }
    if ((p.key.protocol != UDP && p.key.protocol != TCP) || p.fragment == 2 ||
        load(skb, p.transport, &ports, sizeof(ports)))
        return;
    p.key.src_port = ports.src;
    p.key.dst_port = ports.dst;
    __u32 threshold = threshold_of(p.key.protocol, (__u32)bpf_ntohs(ports.src) << 16 | bpf_ntohs(ports.dst));
    if (!threshold || !ports.src || !ports.dst)
        return;
    struct settings *set = bpf_map_lookup_elem(&mace_settings, &zero);
    if (!set)
        return;
    __u64 tag = tag_of(set, &p.key);
    __u32 at = tag >> 32 & set->mask;
    struct row *row = bpf_map_lookup_elem(&mace_rows, &at);
    if (!row)
        return;
    __u32 now = bpf_ktime_get_coarse_ns() / SECOND + 1;
    struct candidate *c = place_of(row, tag);
    if (c->packets == QUIET) {
        if (now < c->seen)
            return;
        c->packets = 0;
    }
    __u32 packets = c->packets + 1;
    c->seen = now;
    if (packets < threshold) {
        c->packets = packets;
    } else if (!tell(&p, packets)) {
        c->seen = now + set->quiet;
        c->packets = QUIET;
    }
}

SEC("classifier")
int sluice_mace(struct __sk_buff *skb)
{
    __u32 known = skb->cb[0], priority = skb->priority;
    asm volatile("" : "+r"(known), "+r"(priority));
    __u32 class = priority & 0xffff;
    if (priority >> 16 == MAJOR && class < CLASSES) {
        __u64 *bytes = bpf_map_lookup_elem(&mace_arrived, &class);
        if (bytes)
            *bytes += skb->wire_len;
        if (class)
            return TCX_NEXT;
    }
    if (known != JUDGED)
        consider(skb);
    return TCX_NEXT;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
