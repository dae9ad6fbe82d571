// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The table of Boomerang's sessions, shared by the program that reserves (boomerang.c, at the ingress) and the one
// that polices (there too, at the egress), and by user space, which maps it into its memory.
//
// A session is a flow on an outgoing interface. It lies in one of two rows of four places, 128 bytes each, which a keyed
// hash of the flow names. Both are in one page of memory, so that a look at the second costs no walk through page
// tables; a new session takes the first while that is at most half full, then the emptier of both, so that most are
// found in the first. A place is half a cache line, and the first free one is taken: most refreshes miss one line alone.
//
//   state   rate (bit/s) 32 | expiry (ticks of 2^26 ns) 26 | life 4 | FREE, BUSY, LIVE or THEIRS 2
//   undo    transaction 32 | the rate before that transaction 32
//
// Whoever changes `state` does it by compare-and-swap and settles the difference with the interface's grant: what is
// taken is taken before, what is given back is given back after. So the rates in the table never exceed the grant at
// any instant. `life` counts how often the place was freed: a place that was freed and taken again between a look and
// the swap is told by it. These programs, one CPU at a time of each hash, take a place; programs and user space free.
//
// THEIRS: user space has a reservation of its own for this session. Its messages are told whatever their form, or one
// session would be held twice. User space alone makes, changes and frees such a place; its rate is not of the grant, and 0.
//
// IPv4: the key is the five-tuple and the interface themselves. IPv6: its first word is a hash of the addresses, which
// are compared in `wide`.

#define WAYS 4
#define FREE 0ULL
#define BUSY 1ULL
#define LIVE 2ULL
#define THEIRS 3ULL
#define STATUS 3ULL
#define FOUND 2ULL // the bit of those two
#define TICK 26 // 2^26 ns: 67 ms
#define TICKS 0x3ffffffULL
#define ROWS_A_PAGE 32
#define TRIES 4
#define WHERE_OUT 0x7fffffULL // the interface in a key's second word
#define LOCKS 4096
#define MOST_INTERFACES 4096

struct place {
    __u64 who;   // IPv4: source, destination; IPv6: a hash of both
    __u64 where; // source port 16 | destination port 16 | protocol 8 | IPv6 1 | interface 23
    __u64 state;
    __u64 undo;
};

struct row {
    struct place at[WAYS];
};

// The addresses of an IPv6 session.
struct wide {
    __u64 word[4];
};

struct interface {
    __u64 free;  // of the grant, bit/s: taken by compare-and-swap, never added to before it is there
    __u64 room;  // what the ledger could still add to the grant when it last said so, bit/s
    __u32 flags; // IFACE_*
    __u32 priority; // major:minor of the class of admitted sessions
    __u64 zero[5];
};

#define IFACE_ADMITS 1    // a grant was given for what leaves here
#define IFACE_REDIRECTS 2 // the device takes redirected frames; else the kernel's own forwarding follows
#define IFACE_LISTENS 4   // messages that come in here are ours
#define IFACE_ANY_REPLIES 8 // a reply may reserve here though no request passed

struct settings {
    __u64 seed[2];
    __u64 offset;       // boot clock less monotonic clock, ns
    __u64 mask;         // rows - 1
    __u32 most_refresh; // s
    __u32 burst_ns;     // a session's bucket holds what its rate brings in this time,
    __u32 burst_least;  // and at least this, bytes
    __u32 min_unit;     // a shorter packet counts as this long
    __u32 per_source;   // messages a second that are taken of one source; a new session counts as ten
    __u32 zero;
    __u64 read_until; // boot clock, ns: until then somebody reads the ring; 0: always
    __u32 nothing[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct row);
} rows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct wide);
} wide SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MOST_INTERFACES);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct interface);
} interfaces SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct settings);
} settings SEC(".maps");

// One CPU at a time makes a session of a hash, or there would be two of one key.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, LOCKS);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, __u64);
} locks SEC(".maps");

#define SOURCES 4096
#define KNOWN 16384

// What each source may still say, by the interface that it says it on: tokens 32 | when that was right, ticks of 2^20 ns,
// 32. Sources are hashed into it, so it never grows. CPUs that write at once may let a message too many pass.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, SOURCES);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, __u64);
} sources SEC(".maps");

// What may still be said of each session that is here, in the same way: whoever speaks in another's name does not know
// his sessions, and so cannot use this up.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, KNOWN);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, __u64);
} known SEC(".maps");

struct session_key {
    __u64 who;
    __u64 where;
    struct wide wide; // IPv6 only
};

static __always_inline __u64 stir(__u64 h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ULL;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ULL;
    h ^= h >> 32;
    return h;
}

// The interface does not count, so that the rows are known before the way is.
static __always_inline __u64 hash(const struct settings *set, const struct session_key *k)
{
    __u64 h = stir(k->who ^ set->seed[0]);
    return stir((h + (k->where & ~WHERE_OUT)) ^ set->seed[1]);
}

static __always_inline __u64 hash_addresses(const struct settings *set, const struct wide *w)
{
    __u64 h = stir(w->word[0] ^ set->seed[0]);
    h = stir((h + w->word[1]) ^ set->seed[1]);
    h = stir((h + w->word[2]) ^ set->seed[0]);
    return stir((h + w->word[3]) ^ set->seed[1]);
}

static __always_inline __u64 swap(__u64 *at, __u64 old, __u64 new)
{
    return __sync_val_compare_and_swap(at, old, new);
}

static __always_inline __u64 look(const __u64 *at)
{
    return *(const volatile __u64 *)at;
}

static __always_inline __u64 rate_of(__u64 state)
{
    return state >> 32;
}

static __always_inline __u64 live(__u64 old, __u64 rate, __u64 expiry)
{
    return rate << 32 | (expiry & TICKS) << 6 | (old & 0x3c) | LIVE;
}

// The place is free, and has been freed once more.
static __always_inline __u64 freed(__u64 old)
{
    return ((old & 0x3c) + 4) & 0x3c;
}

// Takes from an interface's grant: 1 done, 0 there is not so much, -1 too many want it at once.
static __always_inline int take(struct interface *port, __u64 rate)
{
    for (int i = 0; i < 2 * TRIES; i++) {
        __u64 free = look(&port->free);
        if (free < rate)
            return 0;
        if (swap(&port->free, free, free - rate) == free)
            return 1;
    }
    return -1;
}

static __always_inline void give_back(struct interface *port, __u64 rate)
{
    __sync_fetch_and_add(&port->free, rate);
}

static __always_inline int same_addresses(__u32 index, __u32 way, const struct session_key *k)
{
    __u32 at = index * WAYS + way;
    struct wide *w = bpf_map_lookup_elem(&wide, &at);
    if (!w)
        return 0;
    return w->word[0] == k->wide.word[0] && w->word[1] == k->wide.word[1] && w->word[2] == k->wide.word[2] &&
           w->word[3] == k->wide.word[3];
}

#define IS_IPV6(where) ((where) >> 23 & 1)

#define NOWHERE -1

// The number of the place in this row that holds the session, or says that user space does.
static __always_inline int find_in(struct row *r, __u32 index, const struct session_key *k)
{
#pragma unroll
    for (int i = 0; i < WAYS; i++) {
        const struct place *p = &r->at[i];
        if (p->who == k->who && p->where == k->where && look(&p->state) & FOUND &&
            (!IS_IPV6(k->where) || same_addresses(index, i, k)))
            return index * WAYS + i;
    }
    return NOWHERE;
}

static __always_inline struct settings *the_settings(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline struct row *row_at(__u32 index)
{
    return bpf_map_lookup_elem(&rows, &index);
}

static __always_inline struct place *place_at(__u32 number)
{
    struct row *row = row_at(number / WAYS);
    return row ? &row->at[number & (WAYS - 1)] : 0;
}

// The two rows that a session may be in, which CPU may make it, and whose allowance is that of what is said of it.
struct two_rows {
    __u32 first;
    __u32 second;
    __u32 lock;
    __u32 account;
};

static __always_inline void rows_of(const struct settings *set, const struct session_key *k, struct two_rows *r)
{
    __u64 h = hash(set, k);
    r->first = h & set->mask;
    r->second = (r->first ^ (1 + ((h >> 32) * (ROWS_A_PAGE - 1) >> 32))) & set->mask; // another of the page
    r->lock = (h >> 16) % LOCKS;
    r->account = SOURCES + (h >> 40) % KNOWN;
}

// Asks for the first row's first cache line while there is other work to do.
static __always_inline void ask_for(const struct two_rows *r)
{
    struct row *first = row_at(r->first);
    if (first)
        look(&first->at[0].who);
}

// The number of the place that holds the session, or NOWHERE.
static __always_inline int find_session(const struct session_key *k, const struct two_rows *r)
{
    struct row *first = row_at(r->first), *second = row_at(r->second);
    if (!first || !second)
        return NOWHERE;
    int place = find_in(first, r->first, k);
    return place != NOWHERE ? place : find_in(second, r->second, k);
}

// What the egress keeps of a session, by the number of its place. `zero` of the state tells which session it is of: one
// that comes to a place after another begins with a full bucket and no counts.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 65536);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct state);
} meters SEC(".maps");

static __always_inline __u32 tag_of(const struct session_key *k, __u64 state)
{
    __u64 mixed = k->who ^ k->where;
    return ((mixed ^ mixed >> 32) << 4 | (state >> 2 & 15)) ^ 0x80000000;
}
