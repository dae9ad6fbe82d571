// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Classifies and polices what leaves an interface: flow -> (class, token bucket). One program for every interface
// of a node, at the egress (TCX or clsact); the cost of a packet does not grow with the number of flows.
//
// A packet belongs to the flow that names it most closely: its five-tuple; else its sender, from any port, to its
// destination and port (a source port of zero is none: RFC 2205 section A.9); else its addresses and protocol alone;
// else any sender to its destination and port; else any sender to its destination. What is not the five-tuple is
// looked up only where such flows exist. Of ESP and AH the security parameter index stands where the ports would
// (RFC 2207). Flows may name one slot, and are policed together then. Flows of prefixes come behind all of these, in a
// program of their own (masks.h).
//
//   conforming          skb->priority = the flow's HTB class (HTB takes a class id in the priority as it stands)
//   in excess           skb->priority = 0: HTB's default class, best effort (RFC 2211 section 3, RFC 2212 section 5)
//   RSVP, Boomerang,
//   ARP, ND             the control class
//   EF and AF1x         where no flow has the packet: the premium classes, 5 and 6 (RFC 3246, RFC 2597)
//   all else            a priority that names one of our classes is wiped: no application chooses its class
//
// User space alone writes `flows`, this program alone writes `states` (a new flow's slot is written before the flow
// is); so a change of class or bucket never loses a count. An update puts a new element in the old one's place; at
// worst a packet that is just being policed while two updates follow each other is judged by the newer numbers.
//
// Build: make -C driver/linux/bpf (clang-14); the object is shipped, and a test rebuilds and compares it.

#include "packet.h"

#define MAJOR 0x5c1c // the major number of our root qdisc, on every interface
#define CLASS(minor) (((__u32)MAJOR << 16) | (minor))
#define CONTROL CLASS(3)
#define ECHO 1 // ICMP
#define BOOMERANG 0x47114711
#define PREMIUM CLASS(5)
#define BACKGROUND CLASS(6)

#define TCX_NEXT -1 // which clsact calls TC_ACT_UNSPEC: the next program or filter sees the packet too

struct flow {
    __u32 slot;     // index into states; flows that share a bucket have the same
    __u32 priority; // major:minor of the class
    struct bucket bucket;
    __u32 min_unit; // a shorter packet counts as this long
    __u32 version;  // of what follows, which only user space reads
    __u8 record[144];
};

// How many flows there are of each kind that is not a whole five-tuple.
struct kinds {
    __u32 without_ports;
    __u32 of_any_sender;
    __u32 of_any_sender_without_ports;
    __u32 of_any_source_port;
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

// The flows that may have a packet whose five-tuple none has, the closest first.
static __always_inline struct flow *find_wider(const struct packet *p, int *with_ports)
{
    __u32 zero = 0;
    struct kinds *there = bpf_map_lookup_elem(&kinds, &zero);
    struct flow *flow = 0;
    if (!there || !(there->without_ports | there->of_any_sender | there->of_any_sender_without_ports |
                    there->of_any_source_port))
        return 0;
    struct flow_key k = p->key;
    k.src_port = 0;
    // Of ESP and AH half an index stands there, which may be zero and counts.
    if (there->of_any_source_port && k.dst_port && k.protocol != ESP && k.protocol != AH) {
        flow = bpf_map_lookup_elem(&flows, &k);
        if (flow) {
            *with_ports = 1;
            return flow;
        }
    }
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

// Completes the key by the ports, or what stands for them. Where they lie; negative: nowhere.
static __always_inline int read_ports(struct __sk_buff *skb, struct packet *p, int *unreadable)
{
    int at = ports_at(p->key.protocol);
    struct ports ports = {};
    *unreadable = 0;
    if (at >= 0 && p->fragment == 2) {
        struct fragment_key k;
        fragment_key(p, &k);
        struct ports *known = bpf_map_lookup_elem(&fragments, &k);
        if (known)
            ports = *known;
    } else if (at >= 0) {
        if (load(skb, p->transport + at, &ports, sizeof(ports)))
            *unreadable = 1;
    }
    p->key.src_port = ports.src;
    p->key.dst_port = ports.dst;
    return at;
}

// The fragments that follow have the ports of this one.
static __always_inline void note_ports(const struct packet *p)
{
    struct ports ports = {p->key.src_port, p->key.dst_port};
    struct fragment_key k;
    fragment_key(p, &k);
    bpf_map_update_elem(&fragments, &k, &ports, BPF_ANY);
}

static __always_inline struct flow *find(struct __sk_buff *skb, struct packet *p)
{
    int unreadable, with_ports = read_ports(skb, p, &unreadable) >= 0;
    if (unreadable)
        return 0;
    struct flow *flow = bpf_map_lookup_elem(&flows, &p->key);
    if (!flow) {
        with_ports = 0;
        flow = find_wider(p, &with_ports);
    }
    if (flow && with_ports && p->fragment == 1)
        note_ports(p);
    return flow;
}

static __always_inline int is_neighbour_discovery(struct __sk_buff *skb, const struct packet *p)
{
    __u8 type = 0;
    if (p->key.protocol != ICMPV6 || p->fragment == 2 || load(skb, p->transport, &type, 1))
        return 0;
    return type >= 133 && type <= 137; // RFC 4861 section 4
}

// A reservation inside an ICMP echo (boomerang.c) is signalling as well.
static __always_inline int is_boomerang(struct __sk_buff *skb, const struct packet *p)
{
    __be32 magic = 0;
    if ((p->key.protocol != ECHO && p->key.protocol != ICMPV6) || p->fragment)
        return 0;
    return !load(skb, p->transport + 8, &magic, 4) && magic == bpf_htonl(BOOMERANG);
}

// The class of a code point. Where it is not there, HTB takes its default, best effort.
static __always_inline __u32 by_code_point(__u8 dscp)
{
    if (dscp == EF)
        return PREMIUM;
    return dscp == AF11 || dscp == AF12 || dscp == AF13 ? BACKGROUND : 0;
}

// Charges a packet to its flow: the class that it leaves with; 0: it is in excess.
static __always_inline __u32 charge(struct __sk_buff *skb, const struct packet *p, const struct flow *flow)
{
    __u32 slot = flow->slot;
    struct state *state = bpf_map_lookup_elem(&states, &slot);
    if (!state)
        return 0;
    struct bill bill;
    draw_up(skb, p, flow->min_unit, &bill);
    return police(&flow->bucket, state, &bill) ? flow->priority : 0;
}

#include "masks.h"

// What the programs behind this one are told of a packet (packet.h).
struct told {
    __u32 known;
    __u32 ports;
    __u32 read;
};

// The priority that the packet leaves with; 0: none of ours.
static __always_inline __u32 classify(struct __sk_buff *skb, struct told *told)
{
    struct packet p = {};
    p.key.ifindex = skb->ifindex;
    told->known = JUDGED;
    __u32 protocol = bpf_ntohs(skb->protocol);
    if (protocol == ETH_ARP)
        return CONTROL;
    if (protocol == ETH_IPV4) {
        if (parse_ipv4(skb, &p))
            return 0; // it names nobody
    } else if (protocol == ETH_IPV6) {
        if (parse_ipv6(skb, &p))
            return 0;
        if (is_neighbour_discovery(skb, &p))
            return CONTROL;
    } else {
        return 0;
    }
    if (p.key.protocol == RSVP || is_boomerang(skb, &p))
        return CONTROL;
    struct flow *flow = find(skb, &p);
    if (flow)
        return charge(skb, &p, flow);
    told->known = UNKNOWN;
    told->read = READ | (p.fragment == 2 ? 0 : p.key.protocol);
    told->ports = (__u32)bpf_ntohs(p.key.src_port) << 16 | bpf_ntohs(p.key.dst_port);
    return by_code_point(p.dscp);
}

SEC("classifier")
int sluice_egress(struct __sk_buff *skb)
{
    __u32 given = skb->priority;
    // One load before and one store after: a pointer to the field, kept across, is what the verifier refuses.
    asm volatile("" : "+r"(given));
    struct told told = {};
    __u32 priority = classify(skb, &told);
    skb->cb[0] = told.known;
    skb->cb[1] = told.ports;
    skb->cb[2] = told.read;
    if (!priority)
        priority = given >> 16 == MAJOR ? 0 : given;
    skb->priority = priority;
    return TCX_NEXT;
}

// Hangs behind flow program and Boomerang's, where there are flows of prefixes.
SEC("classifier")
int sluice_masks(struct __sk_buff *skb)
{
    __u32 known = skb->cb[0];
    asm volatile("" : "+r"(known));
    __s64 priority = known == JUDGED ? -1 : charge_masked(skb);
    if (priority >= 0)
        skb->priority = priority;
    return TCX_NEXT;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
