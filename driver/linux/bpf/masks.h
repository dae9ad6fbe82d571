// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Flows of prefixes: all packets of one site to another, whoever sends them (Boomerang's masks, section 3.2.2 of
// draft-bergkvist-boomerang-spec-00). Looked for by tuple-space search (Srinivasan, Suri, Varghese, SIGCOMM 1999): what
// of a key counts is the same for all flows of one *shape*, so that one look-up in the map of flows asks them all; an
// interface has few shapes, and they are asked in order, the closest first. User space writes the list, in that order.
//
// A program of its own, for two reasons. An interface without such flows runs not one instruction more than before. And a
// session of Boomerang's fast path (charge.h) that lies inside a prefix goes before it: that program sits between.

#define MOST_SHAPES 8

// The bits that count of each key; family and `wild` as they are in the flows' own keys. Those that are there come
// first; a family of 0 ends the list.
struct shapes {
    struct flow_key keep[MOST_SHAPES];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32); // the interface
    __type(value, struct shapes);
} shapes SEC(".maps");

#define WORDS 10 // of a key, up to protocol, family and wild

static __always_inline struct flow *find_in_shape(const struct packet *p, const struct flow_key *keep)
{
    struct flow_key k = p->key;
    __u32 word[WORDS], mask[WORDS];
    __builtin_memcpy(word, &k, sizeof(word));
    __builtin_memcpy(mask, keep, sizeof(mask));
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        word[i] &= mask[i];
    __builtin_memcpy(&k, word, sizeof(word));
    k.protocol &= keep->protocol;
    k.wild[0] = keep->wild[0];
    k.wild[1] = keep->wild[1];
    return bpf_map_lookup_elem(&flows, &k);
}

static __always_inline struct flow *find_masked(const struct packet *p, int *with_ports)
{
    __u32 oif = p->key.ifindex;
    struct shapes *there = bpf_map_lookup_elem(&shapes, &oif);
    if (!there)
        return 0;
#pragma unroll
    for (int i = 0; i < MOST_SHAPES; i++) {
        const struct flow_key *keep = &there->keep[i];
        if (!keep->family)
            return 0;
        if (keep->family != p->key.family)
            continue;
        struct flow *flow = find_in_shape(p, keep);
        if (flow) {
            *with_ports = keep->src_port || keep->dst_port;
            return flow;
        }
    }
    return 0;
}

// The priority that the packet leaves with; negative: no flow of prefixes has it.
static __always_inline __s64 charge_masked(struct __sk_buff *skb)
{
    struct packet p = {};
    p.key.ifindex = skb->ifindex;
    __u32 protocol = bpf_ntohs(skb->protocol);
    if (protocol == ETH_IPV4) {
        if (parse_ipv4(skb, &p))
            return -1;
    } else if (protocol != ETH_IPV6 || parse_ipv6(skb, &p)) {
        return -1;
    }
    int unreadable, with_ports = 0;
    read_ports(skb, &p, &unreadable);
    struct flow *flow = unreadable ? 0 : find_masked(&p, &with_ports);
    if (!flow)
        return -1;
    if (with_ports && p.fragment == 1)
        note_ports(&p);
    return charge(skb, &p, flow);
}
