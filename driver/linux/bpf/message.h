// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A Boomerang message in the packet: read, and rewritten in place with its checksum kept right by difference. The
// layout is `wire::boomerang`'s; what that refuses is UNTOUCHED here, what only user space understands is RARE.

#define MAGIC 0x47114711
#define RESERVATION 0x10
#define PF_IPV4 0x02
#define PF_IPV6 0x0a
#define BITRATE 0x10
#define NACK 1
#define NO_ECHO 2
#define VERSION 1

// What a message is to us.
#define GOES_ON 0
#define UNTOUCHED -1
#define TOO_MANY -2
enum reason { // why it is told to user space
    RARE = 1,      // something that is not decided here
    EXHAUSTED = 2, // the grant has not so much, the ledger may
    FULL = 3,      // no place in the table
    NO_WAY = 4,    // the kernel's routes do not say where it goes, or to this node
    STRANGER = 5,  // a reply to no request that passed here
    CROWDED = 6,   // too many CPUs wanted the same
};

struct echo {
    __u8 type;
    __u8 code;
    __u16 checksum;
    __be32 id_and_sequence;
    __be32 magic;
    __be32 transaction;
    __u8 kind;
    __u8 format;
    __be16 flags;
    __u8 refresh;
    __u8 version;
    __be16 padding;
    __be32 key[2];
};

struct ports_and_more {
    __be16 sport;
    __be16 dport;
    __u8 protocol;
    __u8 tos;
    __be16 flags;
};

struct classifier4 {
    __be32 src;
    __be32 dst;
    struct ports_and_more more;
};

struct classifier6 {
    __be32 src[4];
    __be32 dst[4];
    struct ports_and_more more;
};

struct message4 {
    struct echo echo;
    struct classifier4 flow;
    struct classifier4 mask;
    __be32 rate[2]; // forward, reverse
};

struct message6 {
    struct echo echo;
    struct classifier6 flow;
    struct classifier6 mask;
    __be32 rate[2];
};

struct hops {
    __be32 head; // type 0x8002, four octets
    __be16 count[2]; // forward, reverse
};
#define HOPS 0x80020004

// The sum of 16-bit words, folded: 0xffff if the checksum in it is right.
static __always_inline __u32 fold(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

// One word after another: a compiler that reads them all first keeps them on the stack.
#define SUM(from, words)                                                                                               \
    ({                                                                                                                 \
        __u64 sum_ = 0;                                                                                                \
        _Pragma("unroll") for (int i_ = 0; i_ < (int)(words); i_++)                                                    \
        {                                                                                                              \
            sum_ += ((const __u32 *)(from))[i_];                                                                       \
            asm volatile("" : "+r"(sum_)::"memory");                                                                   \
        }                                                                                                              \
        sum_;                                                                                                          \
    })

// RFC 1624, equation 3, for words of 32 bits.
static __always_inline void replaced(__u16 *checksum, __u32 old, __u32 new)
{
    *checksum = ~fold((__u64)(__u16)~*checksum + (__u32)~old + new);
}

static __always_inline void put32(__u16 *checksum, __be32 *at, __u32 new)
{
    __u32 old = *at;
    if (old == new)
        return;
    *at = new;
    replaced(checksum, old, new);
}

// A message in its packet, as far as it is one that is decided here.
struct message {
    const void *end; // of the packet
    __u64 pseudo;    // sum of the pseudo-header
    __u32 length;    // of the message
    __u32 reply;
    struct echo *echo;
    __be32 *rate; // forward, reverse
    struct hops *hops;
};

// The words of an option that is the count of hops, or none; a reason if it is another.
static __always_inline int hops_in(struct message *m, void *at, __u32 rest)
{
    m->hops = 0;
    if (!rest)
        return GOES_ON;
    struct hops *hops = at;
    if (rest != sizeof(*hops) || (void *)(hops + 1) > m->end)
        return RARE;
    if (hops->head != bpf_htonl(HOPS))
        return RARE;
    m->hops = hops;
    return GOES_ON;
}

// Nobody's, everybody's, this node's own or a group's: 0/8, 127/8, 224/4, 240/4.
static __always_inline int is_nobody4(__be32 address)
{
    __u32 first = bpf_ntohl(address) >> 24;
    return first == 0 || first == 127 || first >= 224;
}

// ::, ::1 and ff00::/8.
static __always_inline int is_nobody6(const __be32 *a)
{
    return bpf_ntohl(a[0]) >> 24 == 0xff || !(a[0] | a[1] | a[2] | (a[3] & bpf_htonl(~1)));
}

// What is true of every message: the beginning, and that nothing in it is for user space.
static __always_inline int check_echo(const struct echo *e, __u8 family)
{
    if (e->code || e->kind != RESERVATION || (e->format & 15) != family || e->version != VERSION)
        return UNTOUCHED;
    return e->format != (BITRATE | family) || e->flags & bpf_htons(NO_ECHO) ? RARE : GOES_ON;
}

static __always_inline __u64 ports_word(const struct ports_and_more *f, __u32 reply)
{
    __u64 s = bpf_ntohs(f->sport), d = bpf_ntohs(f->dport);
    return (reply ? d << 48 | s << 32 : s << 48 | d << 32) | (__u64)f->protocol << 24;
}

static __always_inline int mask_is_exact(const struct ports_and_more *m)
{
    return (m->sport & m->dport) == 0xffff && m->protocol == 0xff;
}

// A port of zero beside one that is not means "any" in a data plane: user space says no to it.
static __always_inline int names_nobody(const struct ports_and_more *f)
{
    return !f->protocol || !f->sport != !f->dport;
}

static __always_inline int read4(struct message4 *body, struct message *m, struct session_key *k)
{
    if ((void *)(body + 1) > m->end)
        return RARE;
    struct echo *e = &body->echo;
    int went = check_echo(e, PF_IPV4);
    if (went)
        return went;
    went = hops_in(m, body + 1, m->length - sizeof(*body));
    if (went)
        return went;
    __u64 sum = SUM(body, sizeof(*body) / 4);
    if (m->hops)
        sum += SUM(m->hops, sizeof(*m->hops) / 4);
    if (fold(sum) != 0xffff)
        return UNTOUCHED;
    const struct classifier4 *f = &body->flow;
    if ((body->mask.src & body->mask.dst) != 0xffffffff || !mask_is_exact(&body->mask.more))
        return RARE;
    if (is_nobody4(f->src) || is_nobody4(f->dst) || names_nobody(&f->more))
        return RARE;
    m->echo = e;
    m->rate = body->rate;
    m->reply = e->type == 0;
    k->who = m->reply ? (__u64)f->dst << 32 | f->src : (__u64)f->src << 32 | f->dst;
    k->where = ports_word(&f->more, m->reply);
    return GOES_ON;
}

static __always_inline void copy_address(__u64 *to, const __be32 *from)
{
    to[0] = (__u64)from[1] << 32 | from[0];
    to[1] = (__u64)from[3] << 32 | from[2];
}

static __noinline int read6(const struct settings *set, struct message6 *body, struct message *m,
                            struct session_key *k)
{
    if ((void *)(body + 1) > m->end)
        return RARE;
    struct echo *e = &body->echo;
    int went = check_echo(e, PF_IPV6);
    if (went)
        return went;
    went = hops_in(m, body + 1, m->length - sizeof(*body));
    if (went)
        return went;
    __u64 sum = SUM(body, sizeof(*body) / 4) + m->pseudo;
    if (m->hops)
        sum += SUM(m->hops, sizeof(*m->hops) / 4);
    if (fold(sum) != 0xffff)
        return UNTOUCHED;
    const struct classifier6 *f = &body->flow;
    __u32 all = ~0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        all &= body->mask.src[i] & body->mask.dst[i];
    if (all != 0xffffffff || !mask_is_exact(&body->mask.more))
        return RARE;
    if (is_nobody6(f->src) || is_nobody6(f->dst) || names_nobody(&f->more))
        return RARE;
    m->echo = e;
    m->rate = body->rate;
    m->reply = e->type == 129;
    copy_address(&k->wide.word[0], m->reply ? f->dst : f->src);
    copy_address(&k->wide.word[2], m->reply ? f->src : f->dst);
    k->who = hash_addresses(set, &k->wide);
    k->where = ports_word(&f->more, m->reply) | 1 << 23;
    return GOES_ON;
}

static __always_inline void rewrite(const struct settings *set, const struct message *m, __u32 rate, int refused)
{
    struct echo *e = m->echo;
    __u16 checksum = e->checksum;
    if (refused) {
        __be32 *word = (__be32 *)&e->kind;
        put32(&checksum, word, *word | bpf_htonl(NACK));
        put32(&checksum, &e->key[0], 0);
        put32(&checksum, &e->key[1], 0);
    }
    if (e->refresh > set->most_refresh) {
        __be32 *word = (__be32 *)&e->refresh;
        put32(&checksum, word, bpf_htonl((bpf_ntohl(*word) & 0xffffff) | set->most_refresh << 24));
    }
    __be32 lowered = bpf_htonl(rate);
    if (m->reply)
        put32(&checksum, &m->rate[1], lowered);
    else
        put32(&checksum, &m->rate[0], lowered);
    if (m->hops) {
        __be16 *count = m->reply ? &m->hops->count[1] : &m->hops->count[0];
        __be16 old = *count, new = bpf_htons(bpf_ntohs(old) + 1);
        if (old != 0xffff) {
            *count = new;
            replaced(&checksum, old, new);
        }
    }
    e->checksum = checksum;
}

