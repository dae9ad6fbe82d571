// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The edge of a DiffServ domain: tells apart, polices and marks what enters it (RFC 2475 section 2.3; the committed
// access rate of the GARA papers' edge routers). One program for each side of an interface: the ingress of an edge
// router, or the egress of a host that is its own edge, there before the flow program.
//
// A packet belongs to the rule that names it most closely: its five-tuple; else the innermost of its sender's control
// groups that has a rule (at the egress of the host that sends it, where its socket is known); else the five-tuple with
// the fewest wildcards.
//
//   conforming     its code point is the rule's; ECN bits stay (RFC 3168). Of a rule with a meter AF11, AF12 or AF13, by
//                  its colour; red may be in excess instead
//   in excess      dropped; of a rule that leaves a field open, or is a group's: its mark is wiped
//   signalling     RSVP, Boomerang and what ICMP says beside echoes is no rule's
//   of no rule     a premium code point is wiped: only a reservation makes a packet premium
//   unreadable     the same
//
// An interface towards another domain has rules of aggregates, one for EF and one for AF1x: what is to go on as premium
// is charged to its aggregate as well. In excess of that it is dropped; of an aggregate with no rate it loses the mark. An
// aggregate with a meter gives it the code point of the colour that it has there.
//
// What comes in by an interface that is believed (`core` of the configuration) keeps its code point. On the way out the
// code points of packets that came in by such an interface, or past this program, stay; what this host sends itself and
// what came in by an interface that nobody looks after is of no rule.
//
// User space alone writes `rules`, `rule_profiles` and `rule_kinds`, this program alone writes `rule_states`, `rule_credits`
// and the counts of `edges`.
// `traffic::edge` decides the same in Rust and a test holds the two together.
//
// Build: make -C driver/linux/bpf (clang-14); the object is shipped, and a test rebuilds and compares it.

#include "packet.h"
#include "meter.h"

#define TCX_NEXT -1 // which clsact calls TC_ACT_UNSPEC: the next program or filter sees the packet too
#define TCX_DROP 2

#define INGRESS 0
#define EGRESS 1
#define BELIEVED 2 // no side: an entry of `edges` that says that the interface's code points are believed

#define EXACT 0 // the kind without wildcards

#define ICMP 1
#define ICMP_ECHO_REPLY 0
#define ICMP_ECHO 8
#define ICMPV6_ECHO 128
#define ICMPV6_ECHO_REPLY 129
#define BOOMERANG 0x47114711

// The bits of a kind: which fields stand for anything.
#define ANY_SRC 0
#define ANY_DST 1
#define ANY_PROTOCOL 2
#define ANY_SRC_PORT 3
#define ANY_DST_PORT 4

#define GROUP 32 // the kinds of control groups: the other bits are the depth below the root of the hierarchy
#define OF_EF 64 // kinds of aggregates, behind those of wildcards and groups
#define OF_AF1 65

#define KINDS 8 // at once
#define NO_KIND 255

struct edge_key {
    __u32 ifindex;
    __u32 side;
};

struct edge {
    __u32 header; // bytes of link header before the IP header
    __u32 zero;
    __u64 stripped_packets;
    __u64 stripped_bytes;
};

struct rule_key {
    struct flow_key flow; // zeroes where anything goes; of any two addresses the family is 4. Of a group its number
                          // is the source, in network order, and the family is 6
    __u8 side;
    __u8 kind;
    __u8 zero[2];
};

struct rule {
    __u32 slot; // index into rule_states
    __u32 mark; // code point, and METERED
    struct bucket bucket;
    __u32 min_unit; // a shorter packet counts as this long
    __u32 version;  // of what only user space reads
    __u64 told;     // the depth in bytes, as it was told
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 256);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct edge_key);
    __type(value, struct edge);
} edges SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct rule_key);
    __type(value, struct rule);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 16384);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct state);
} rule_states SEC(".maps");

// Which kinds of wildcards there are, the closest first: a byte each, the first one lowest, NO_KIND behind the last. One
// word, so that it changes at once.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, __u64);
} rule_kinds SEC(".maps");

// Which control groups may have a rule: a bit for each, at a place that its number gives and others may share (a Bloom
// filter with one hash). A packet of a group without a rule costs a bit, and no look-up.
#define GROUP_BITS 512

struct group_filter {
    __u64 bits[GROUP_BITS / 64];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct group_filter);
} rule_groups SEC(".maps");

// The ports of datagrams under way whose first fragment a rule had.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct fragment_key);
    __type(value, struct ports);
} rule_fragments SEC(".maps");

// The packet at hand. In a map, whose contents the verifier does not follow: what the headers may say would be thousands
// of states on the stack. A program runs to its end on its processor before another begins there.
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct packet);
} scratch SEC(".maps");

// Fills in the ports, of a later fragment those of the first.
static __always_inline int find_ports(struct __sk_buff *skb, struct packet *p)
{
    int at = ports_at(p->key.protocol);
    struct ports ports = {};
    struct fragment_key k;
    if (at < 0)
        return 0;
    if (p->fragment == 2) {
        fragment_key(p, &k);
        struct ports *known = bpf_map_lookup_elem(&rule_fragments, &k);
        if (known)
            ports = *known;
    } else {
        if (load(skb, p->transport + at, &ports, sizeof(ports)))
            return -1;
    }
    p->key.src_port = ports.src;
    p->key.dst_port = ports.dst;
    return 0;
}

// The first fragment of a rule's datagram: those that follow are the rule's too.
static __always_inline void remember_ports(const struct packet *p)
{
    struct ports ports = {.src = p->key.src_port, .dst = p->key.dst_port};
    struct fragment_key k;
    fragment_key(p, &k);
    bpf_map_update_elem(&rule_fragments, &k, &ports, BPF_ANY);
}

// All ones where the kind names the field, else zero. Without branches: the verifier walks every way there is.
static __always_inline __u32 named(__u32 kind, __u32 bit)
{
    return ((kind >> bit) & 1) - 1;
}

static __always_inline void widen(const struct packet *p, __u8 side, __u32 kind, struct rule_key *k)
{
    __u32 src[4], dst[4];
    __builtin_memcpy(src, p->key.src, sizeof(src));
    __builtin_memcpy(dst, p->key.dst, sizeof(dst));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        src[i] &= named(kind, ANY_SRC);
        dst[i] &= named(kind, ANY_DST);
    }
    __builtin_memcpy(k->flow.src, src, sizeof(src));
    __builtin_memcpy(k->flow.dst, dst, sizeof(dst));
    __u32 family = named(kind, ANY_SRC) | named(kind, ANY_DST);
    k->flow.ifindex = p->key.ifindex;
    k->flow.src_port = p->key.src_port & named(kind, ANY_SRC_PORT);
    k->flow.dst_port = p->key.dst_port & named(kind, ANY_DST_PORT);
    k->flow.protocol = p->key.protocol & named(kind, ANY_PROTOCOL);
    k->flow.family = (p->key.family & family) | (4 & ~family);
    k->flow.wild[0] = k->flow.wild[1] = 0;
    k->side = side;
    k->kind = kind;
    k->zero[0] = k->zero[1] = 0;
}

// The key of a control group's rule, where a process in that group or below it sends the packet.
static __always_inline int name_group(struct __sk_buff *skb, __u32 ifindex, __u8 side, __u32 kind, struct rule_key *k)
{
    __u64 id = bpf_skb_ancestor_cgroup_id(skb, kind & 31);
    __u32 zero = 0, place = (id ^ id >> 32) & (GROUP_BITS - 1);
    struct group_filter *filter = bpf_map_lookup_elem(&rule_groups, &zero);
    if (!id || !filter || !(filter->bits[place >> 6] >> (place & 63) & 1))
        return -1;
    id = bpf_cpu_to_be64(id);
    __builtin_memset(k, 0, sizeof(*k));
    __builtin_memcpy(k->flow.src + 8, &id, sizeof(id));
    k->flow.ifindex = ifindex;
    k->flow.family = 6;
    k->side = side;
    k->kind = kind;
    return 0;
}

// What belongs to no rule: whoever had it could silence everybody's signalling, or hide that a packet was too big.
static __always_inline int is_control(struct __sk_buff *skb, const struct packet *p)
{
    __u8 type = 0;
    __be32 magic = 0;
    if (p->key.protocol == RSVP)
        return 1;
    if ((p->key.protocol != ICMP && p->key.protocol != ICMPV6) || p->fragment == 2)
        return 0;
    if (load(skb, p->transport, &type, 1))
        return 0;
    if (p->key.protocol == ICMP && type != ICMP_ECHO && type != ICMP_ECHO_REPLY)
        return 1;
    if (p->key.protocol == ICMPV6 && type != ICMPV6_ECHO && type != ICMPV6_ECHO_REPLY)
        return 1;
    return !p->fragment && !load(skb, p->transport + 8, &magic, 4) && magic == bpf_htonl(BOOMERANG);
}

static __always_inline struct rule *find(struct __sk_buff *skb, const struct packet *p, __u8 side, __u32 *of_kind)
{
    __u32 zero = 0;
    __u64 *there = bpf_map_lookup_elem(&rule_kinds, &zero);
    if (!there)
        return 0;
    __u64 left = *there;
    if ((left & 255) == NO_KIND || is_control(skb, p))
        return 0;
#pragma unroll
    for (int i = 0; i < KINDS; i++) {
        struct rule_key k;
        __u32 kind = left & 255;
        if (kind == NO_KIND)
            return 0;
        left >>= 8;
        if (!(kind & GROUP))
            widen(p, side, kind, &k);
        else if (side != EGRESS || name_group(skb, p->key.ifindex, side, kind, &k))
            continue;
        struct rule *rule = bpf_map_lookup_elem(&rules, &k);
        if (rule) {
            *of_kind = kind;
            return rule;
        }
    }
    return 0;
}

static __always_inline void mark_ipv4(struct __sk_buff *skb, __u32 at, __u8 mark)
{
    __u8 old[2], fresh[2];
    __u16 before, after;
    if (bpf_skb_load_bytes(skb, at, old, sizeof(old)))
        return;
    fresh[0] = old[0];
    fresh[1] = mark << 2 | (old[1] & 3);
    __builtin_memcpy(&before, old, 2);
    __builtin_memcpy(&after, fresh, 2);
    bpf_l3_csum_replace(skb, at + 10, before, after, 2);
    bpf_skb_store_bytes(skb, at + 1, fresh + 1, 1, 0);
}

static __always_inline void mark_ipv6(struct __sk_buff *skb, __u32 at, __u8 mark)
{
    __u8 h[2];
    if (bpf_skb_load_bytes(skb, at, h, sizeof(h)))
        return;
    h[0] = (h[0] & 0xf0) | mark >> 2;
    h[1] = (h[1] & 0x3f) | mark << 6;
    bpf_skb_store_bytes(skb, at, h, sizeof(h), 0);
}

static __always_inline int is_noted(__u32 ifindex, __u32 side)
{
    struct edge_key k = {.ifindex = ifindex, .side = side};
    return bpf_map_lookup_elem(&edges, &k) != 0;
}

// Whether somebody answers for the packet's code point: the interface that it came in by is believed, or is an edge,
// where a premium one was wiped or given by a rule.
static __always_inline int is_vouched_for(struct __sk_buff *skb, __u8 side)
{
    if (side == INGRESS)
        return is_noted(skb->ifindex, BELIEVED);
    __u32 from = skb->ingress_ifindex; // none: this host sends it
    return from && (is_noted(from, INGRESS) || is_noted(from, BELIEVED));
}

// Reads no more than the code point; for packets whose headers make no sense further on.
static __always_inline int read_mark(struct __sk_buff *skb, struct packet *p, __u32 protocol)
{
    __u8 h[2];
    if (load(skb, 0, h, sizeof(h)))
        return -1;
    p->key.family = protocol == ETH_IPV4 ? 4 : 6;
    p->dscp = protocol == ETH_IPV4 ? h[1] >> 2 : (h[0] & 15) << 2 | h[1] >> 6;
    p->length = 0;
    return 0;
}

static __always_inline int is_premium(__u32 mark)
{
    return mark == EF || mark == AF11 || mark == AF12 || mark == AF13;
}

#define UNCHARGED 0 // there is no such aggregate here
#define CONFORMS 1
#define EXCEEDS 2
#define UNAGREED 3

// Charges a packet that is to go on with this code point to the aggregate of its service, which may change it.
static __always_inline int charge_aggregate(struct __sk_buff *skb, const struct packet *p, __u8 side, __u32 *mark)
{
    struct rule_key k = {.side = side, .kind = *mark == EF ? OF_EF : OF_AF1};
    struct bill bill;
    k.flow.ifindex = skb->ifindex;
    k.flow.family = 4;
    struct rule *rule = bpf_map_lookup_elem(&rules, &k);
    if (!rule)
        return UNCHARGED;
    __u32 slot = rule->slot;
    struct state *state = bpf_map_lookup_elem(&rule_states, &slot);
    if (!state)
        return UNCHARGED;
    draw_up(skb, p, rule->min_unit, &bill);
    if (rule->mark & METERED && rule->bucket.rate) {
        int given = remark(slot, &bill, *mark);
        if (given < 0)
            return EXCEEDS;
        *mark = given;
        return CONFORMS;
    }
    if (police(&rule->bucket, state, &bill))
        return CONFORMS;
    return rule->bucket.rate ? EXCEEDS : UNAGREED;
}

static __always_inline int condition(struct __sk_buff *skb, __u8 side)
{
    struct edge_key where = {.ifindex = skb->ifindex, .side = side};
    struct edge *edge = bpf_map_lookup_elem(&edges, &where);
    __u32 zero = 0;
    struct packet *p = bpf_map_lookup_elem(&scratch, &zero);
    struct bill bill;
    __u32 protocol = bpf_ntohs(skb->protocol);
    if (!edge || !p || (protocol != ETH_IPV4 && protocol != ETH_IPV6))
        return TCX_NEXT;
    __builtin_memset(p, 0, sizeof(*p));
    p->key.ifindex = skb->ifindex;
    struct rule *rule = 0;
    __u32 mark = 0, kind = EXACT;
    int unreadable = protocol == ETH_IPV4 ? parse_ipv4(skb, p) : parse_ipv6(skb, p);
    if (unreadable) {
        if (read_mark(skb, p, protocol))
            return TCX_NEXT;
    } else if (!find_ports(skb, p)) {
        rule = find(skb, p, side, &kind);
    }
    if (rule) {
        __u32 slot = rule->slot;
        struct state *state = bpf_map_lookup_elem(&rule_states, &slot);
        if (!state)
            return TCX_NEXT;
        if (p->fragment == 1)
            remember_ports(p);
        draw_up(skb, p, rule->min_unit, &bill);
        int given = -1;
        if (rule->mark & METERED)
            given = remark(slot, &bill, p->dscp);
        else if (police(&rule->bucket, state, &bill))
            given = rule->mark & 63;
        if (given >= 0)
            mark = given;
        else if (kind == EXACT)
            return TCX_DROP;
    } else {
        if (!is_premium(p->dscp))
            return TCX_NEXT;
        if (is_vouched_for(skb, side))
            return TCX_NEXT;
        if (!unreadable && !is_control(skb, p))
            mark = p->dscp;
    }
    int charged = is_premium(mark) ? charge_aggregate(skb, p, side, &mark) : UNCHARGED;
    if (charged == EXCEEDS)
        return TCX_DROP;
    if (charged == UNAGREED)
        mark = 0;
    if (!rule && charged == UNCHARGED) {
        mark = 0;
        draw_up(skb, p, 0, &bill);
        __sync_fetch_and_add(&edge->stripped_packets, bill.packets);
        __sync_fetch_and_add(&edge->stripped_bytes, bill.bytes);
    }
    if (p->dscp == mark)
        return TCX_NEXT;
    if (p->key.family == 4)
        mark_ipv4(skb, edge->header, mark);
    else
        mark_ipv6(skb, edge->header, mark);
    return TCX_NEXT;
}

SEC("classifier")
int sluice_edge_in(struct __sk_buff *skb)
{
    return condition(skb, INGRESS);
}

SEC("classifier")
int sluice_edge_out(struct __sk_buff *skb)
{
    return condition(skb, EGRESS);
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
