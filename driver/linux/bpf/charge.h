// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Charges what leaves to its session's token bucket: conforming packets take the session's class, those in excess best
// effort. Sits behind flow.c, and leaves alone what that has found to be a flow of its own, or control.

#define MAJOR 0x5c1c
#define FIRST_MARKED 5 // classes by code point, which a session goes before
#define LAST_MARKED 6

// The ports of datagrams under way whose first fragment belonged to a session.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, struct fragment_key);
    __type(value, struct ports);
} fragments SEC(".maps");

static __always_inline int read_leaving(struct __sk_buff *skb, struct packet *p)
{
    __u32 protocol = bpf_ntohs(skb->protocol);
    p->key.ifindex = skb->ifindex;
    if (protocol == ETH_IPV4) {
        if (parse_ipv4(skb, p))
            return -1;
    } else if (protocol != ETH_IPV6 || parse_ipv6(skb, p)) {
        return -1;
    }
    int at = ports_at(p->key.protocol);
    struct ports ports = {};
    struct fragment_key k;
    if (at < 0)
        return 0;
    if (p->fragment)
        fragment_key(p, &k);
    if (p->fragment == 2) {
        struct ports *known = bpf_map_lookup_elem(&fragments, &k);
        if (!known)
            return -1;
        ports = *known;
    } else if (load(skb, p->transport + at, &ports, sizeof(ports))) {
        return -1;
    }
    p->key.src_port = ports.src;
    p->key.dst_port = ports.dst;
    return 0;
}

static __always_inline void session_of(const struct settings *set, const struct packet *p, struct session_key *k)
{
    __u64 s = bpf_ntohs(p->key.src_port), d = bpf_ntohs(p->key.dst_port);
    k->where = s << 48 | d << 32 | (__u64)p->key.protocol << 24 | (p->key.ifindex & WHERE_OUT);
    if (p->key.family == 4) {
        __u32 src, dst;
        __builtin_memcpy(&src, p->key.src, 4);
        __builtin_memcpy(&dst, p->key.dst, 4);
        k->who = (__u64)src << 32 | dst;
        return;
    }
    __builtin_memcpy(&k->wide.word[0], p->key.src, 16);
    __builtin_memcpy(&k->wide.word[2], p->key.dst, 16);
    k->who = hash_addresses(set, &k->wide);
    k->where |= 1 << 23;
}

// A session's bucket, by its rate.
static __always_inline void bucket_of(const struct settings *set, __u64 rate, struct bucket *b)
{
    __u64 least = set->burst_least * BYTE;
    b->rate = rate;
    b->depth = rate * set->burst_ns;
    b->fill = set->burst_ns;
    if (b->depth < least) {
        b->depth = least;
        b->fill = least / rate + 1;
    }
}

// Another session than the one that was charged here last: begin anew.
static __always_inline void begin(struct state *s, __u32 tag, __u64 depth)
{
    __u64 now = bpf_ktime_get_ns();
    bpf_spin_lock(&s->lock);
    if (s->zero != tag) {
        s->zero = tag;
        s->level = depth;
        s->last = now;
        s->packets = s->bytes = s->over_packets = s->over_bytes = 0;
    }
    bpf_spin_unlock(&s->lock);
}

// The priority that the packet leaves with; negative: no session's.
static __always_inline __s64 charge(struct __sk_buff *skb)
{
    struct settings *set = the_settings();
    struct packet p = {};
    struct session_key k = {};
    struct two_rows r;
    if (!set || read_leaving(skb, &p))
        return -1;
    session_of(set, &p, &k);
    rows_of(set, &k, &r);
    __u32 place = find_session(&k, &r);
    struct place *at = place_at(place);
    struct state *s = bpf_map_lookup_elem(&meters, &place);
    struct interface *out = interface_of(skb->ifindex);
    if (!at || !s || !out)
        return -1;
    __u64 state = look(&at->state), rate = rate_of(state);
    if ((state & STATUS) != LIVE || !rate)
        return -1;
    struct bucket bucket;
    bucket_of(set, rate, &bucket);
    __u32 tag = tag_of(&k, state);
    if (s->zero != tag)
        begin(s, tag, bucket.depth);
    if (p.fragment == 1) {
        struct fragment_key fragment;
        struct ports ports = {p.key.src_port, p.key.dst_port};
        fragment_key(&p, &fragment);
        bpf_map_update_elem(&fragments, &fragment, &ports, BPF_ANY);
    }
    struct bill bill;
    draw_up(skb, &p, set->min_unit, &bill);
    return police(&bucket, s, &bill) ? out->priority : 0;
}
