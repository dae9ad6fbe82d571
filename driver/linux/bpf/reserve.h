// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What a message does to the table and to the grant: refresh, make, change, release, refuse, undo. The second copy of
// `engine/boomerang`'s decisions for one flow with one rate.

#define MESSAGE 1 // what it costs of an allowance,
#define NEW 9     // and a new session beside it
#define LIFE 3500000000ULL // ns for each second of the refresh interval

// What happened, for each CPU.
struct counts {
    __u64 refreshed;
    __u64 made;
    __u64 changed;
    __u64 released;
    __u64 refused;
    __u64 carried; // forwarded without a change of state
    __u64 told;
    __u64 unheard; // the ring was full
    __u64 silenced; // too much was said: dropped
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct counts);
} counts SEC(".maps");

// What a pass through this node needs to know of a message, and what becomes of it.
struct work {
    struct session_key key; // of the half that is reserved here
    struct two_rows rows;   // that it may be in
    __u64 rate;             // asked for it, bit/s
    __u64 lowered;          // what the field says afterwards
    __u64 expiry;           // tick
    __u32 transaction;
    __u32 iif;
    __u32 oif;
    __u8 reply;
    __u8 nack;    // refused before us
    __u8 refused; // by us
    __u8 expects; // a request that asks for something in reverse: its reply must be known
    __u32 account; // whose allowance it goes of: that of a source, or from SOURCES on that of a session
    int request;   // the place of a reply's forward half
    __u64 now;     // coarsely, ns of the monotonic clock
};

static __always_inline struct counts *counters(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&counts, &zero);
}

static __always_inline struct interface *interface_of(__u32 ifindex)
{
    return bpf_map_lookup_elem(&interfaces, &ifindex);
}

// Which allowance an IP source has on an interface, as far as nothing is known of what it says.
static __always_inline __u32 source_of(const struct settings *set, __u64 first, __u64 second, __u32 iif)
{
    return stir(stir((stir(first ^ set->seed[1]) + second) ^ set->seed[0]) + iif) % SOURCES;
}

static __always_inline __u64 *allowance(__u32 account)
{
    if (account < SOURCES)
        return bpf_map_lookup_elem(&sources, &account);
    account -= SOURCES;
    return bpf_map_lookup_elem(&known, &account);
}

// Whether so much more may be said: a token bucket of a second's worth.
static __always_inline int may_say(const struct settings *set, __u32 account, __u64 now, __u32 cost)
{
    __u64 *at = allowance(account);
    if (!at)
        return 0;
    __u64 old = look(at);
    __u32 tick = now >> 20, then = old;
    __u64 tokens = old >> 32, gained = ((__u64)(tick - then) * set->per_source) >> 10;
    if (gained) {
        tokens += gained;
        if (tokens > set->per_source)
            tokens = set->per_source;
        then = tick;
    }
    int enough = tokens >= cost;
    if (enough)
        tokens -= cost;
    *(volatile __u64 *)at = tokens << 32 | then;
    return enough;
}

// What this interface could give to somebody who holds `held` of it.
static __always_inline __u64 offer(const struct interface *out, __u64 held)
{
    return look(&out->free) + look(&out->room) + held;
}

static __always_inline int refuse(const struct interface *out, __u64 held, struct work *w)
{
    __u64 most = offer(out, held);
    if (most >= w->rate)
        return EXHAUSTED; // the grant may grow
    w->lowered = most;
    w->refused = 1;
    return GOES_ON;
}

// The session is there: refresh it, or change what it has.
static __always_inline int renew(__u32 place, struct work *w)
{
    struct place *p = place_at(place);
    struct counts *n = counters();
    if (!w || !p || !n)
        return CROWDED;
    struct interface *out = interface_of(w->oif);
    if (!out)
        return CROWDED;
    __u64 *at = &p->state, *undo = &p->undo;
    __u64 old = look(at);
    __u64 held = rate_of(old);
    if ((old & STATUS) != LIVE)
        return (old & STATUS) == THEIRS ? RARE : CROWDED;
    if (w->rate > held) {
        int taken = take(out, w->rate - held);
        if (taken < 0)
            return CROWDED;
        if (!taken)
            return refuse(out, held, w);
    }
    __u64 new = w->rate || w->expects ? live(old, w->rate, w->expiry) : freed(old);
    if (swap(at, old, new) != old) {
        if (w->rate > held)
            give_back(out, w->rate - held);
        return CROWDED;
    }
    if (w->rate < held)
        give_back(out, held - w->rate);
    if (*undo >> 32 != w->transaction)
        *undo = (__u64)w->transaction << 32 | (w->rate ? held : 0);
    if (w->rate == held && new & LIVE)
        n->refreshed++;
    else if (w->rate)
        n->changed++;
    else
        n->released++;
    return GOES_ON;
}

static __always_inline int free_places(struct row *r)
{
    int free = 0;
#pragma unroll
    for (int i = 0; i < WAYS; i++)
        free += (look(&r->at[i].state) & STATUS) == FREE;
    return free;
}

// Takes a place for the session in this row; its rate has been taken from the grant.
static __always_inline int settle(struct row *b, __u32 index, const struct work *w)
{
#pragma unroll
    for (int i = 0; i < WAYS; i++) {
        struct place *p = &b->at[i];
        __u64 old = look(&p->state);
        if ((old & STATUS) != FREE || swap(&p->state, old, (old & 0x3c) | BUSY) != old)
            continue;
        p->who = w->key.who;
        p->where = w->key.where;
        p->undo = (__u64)w->transaction << 32;
        if (IS_IPV6(w->key.where)) {
            __u32 at = index * WAYS + i;
            struct wide *wider = bpf_map_lookup_elem(&wide, &at);
            if (!wider) {
                swap(&p->state, (old & 0x3c) | BUSY, old);
                return 0;
            }
            *wider = w->key.wide;
        }
        swap(&p->state, (old & 0x3c) | BUSY, live(old, w->rate, w->expiry)); // a full barrier
        return 1;
    }
    return 0;
}

// Makes the session in one of its rows, if nobody has made it since we looked.
static __always_inline int make_in(const struct two_rows *r, struct interface *out, struct work *w)
{
    struct row *first = row_at(r->first), *second = row_at(r->second);
    if (!first || !second)
        return FULL;
    if (find_in(first, r->first, &w->key) != NOWHERE || find_in(second, r->second, &w->key) != NOWHERE)
        return CROWDED;
    int taken = take(out, w->rate);
    if (taken < 0)
        return CROWDED;
    if (!taken)
        return refuse(out, 0, w);
    int done;
    int free = free_places(first);
    if (free >= WAYS / 2 || free >= free_places(second))
        done = settle(first, r->first, w) || settle(second, r->second, w);
    else
        done = settle(second, r->second, w) || settle(first, r->first, w);
    if (!done) {
        give_back(out, w->rate);
        return FULL;
    }
    return GOES_ON;
}

__noinline int make(struct work *w)
{
    struct settings *set = the_settings();
    struct counts *n = counters();
    if (!w || !set || !n)
        return CROWDED;
    struct interface *out = interface_of(w->oif);
    __u64 *lock = bpf_map_lookup_elem(&locks, &w->rows.lock);
    if (!lock || !out)
        return CROWDED;
    if (!may_say(set, w->account, w->now, NEW)) {
        w->lowered = 0;
        w->refused = 1;
        return GOES_ON;
    }
    int got = 0;
    for (int i = 0; i < 64 && !got; i++)
        got = swap(lock, 0, 1) == 0;
    if (!got)
        return CROWDED;
    int went = make_in(&w->rows, out, w);
    *(volatile __u64 *)lock = 0; // what was written before has been made seen by the last swap
    if (went == GOES_ON && !w->refused)
        n->made++;
    return went;
}

// A request that failed further on takes back what its transaction newly made or raised.
static __always_inline void revert(__u32 place, struct interface *out, __u32 transaction, struct counts *n)
{
    struct place *p = place_at(place);
    if (!p)
        return;
    __u64 *at = &p->state;
    __u64 undo = p->undo;
    __u64 before = undo & 0xffffffff;
    __u64 old = look(at);
    if (undo >> 32 != transaction || (old & STATUS) != LIVE || rate_of(old) <= before)
        return;
    __u64 new = before ? (old & 0xffffffff) | before << 32 : freed(old);
    if (swap(at, old, new) != old)
        return; // somebody else has just changed it: it lives until it expires, or until it is said again
    give_back(out, rate_of(old) - before);
    n->released++;
}

// The forward half of a reply's session: on the interface that the reply came in by. A reply to a request that passed here
// goes of the allowance of what is said of that session.
__noinline int find_request(struct work *w)
{
    struct settings *set = the_settings();
    if (!w || !set)
        return NOWHERE;
    struct session_key k = {};
    __u64 where = w->key.where;
    k.where = where >> 48 << 32 | (where >> 32 & 0xffff) << 48 | (where & 0xff800000) | w->iif;
    if (IS_IPV6(where)) {
        k.wide.word[0] = w->key.wide.word[2];
        k.wide.word[1] = w->key.wide.word[3];
        k.wide.word[2] = w->key.wide.word[0];
        k.wide.word[3] = w->key.wide.word[1];
        k.who = hash_addresses(set, &k.wide);
    } else {
        k.who = w->key.who >> 32 | w->key.who << 32;
    }
    struct two_rows r;
    rows_of(set, &k, &r);
    int at = find_session(&k, &r);
    struct place *p = place_at(at);
    if (at != NOWHERE && p && p->undo >> 32 == w->transaction)
        w->account = r.account;
    return at;
}

static __always_inline int is_theirs(__u32 place)
{
    struct place *p = place_at(place);
    return p && (look(&p->state) & STATUS) == THEIRS;
}

// A reply undoes what its request did here if that failed, and must be known if it is to make something new.
__noinline int heed_request(struct work *w)
{
    struct counts *n = counters();
    if (!w || !n)
        return CROWDED;
    struct interface *in = interface_of(w->iif);
    int place = w->request;
    if (is_theirs(place))
        return RARE;
    if (w->nack) {
        if (place != NOWHERE && in)
            revert(place, in, w->transaction, n);
        return GOES_ON;
    }
    struct place *p = place_at(place);
    if (place == NOWHERE || !p || p->undo >> 32 != w->transaction)
        return STRANGER;
    return GOES_ON;
}

// Reserves what the message asks on the interface that it leaves by; a reason if that is not for us. Its allowance is
// charged only when it is known what it is of, and before anything is changed.
static __always_inline int reserve(const struct settings *set, struct work *w)
{
    struct counts *n = counters();
    if (!w || !n)
        return CROWDED;
    int place = find_session(&w->key, &w->rows);
    w->request = NOWHERE;
    if (w->reply && (place == NOWHERE || w->nack))
        w->request = find_request(w);
    if (place != NOWHERE)
        w->account = w->rows.account;
    if (!may_say(set, w->account, w->now, MESSAGE))
        return TOO_MANY;
    struct interface *out = interface_of(w->oif);
    if (!out || !(out->flags & IFACE_ADMITS))
        return RARE;
    w->lowered = w->rate;
    if (w->nack) {
        __u64 held = 0;
        if (is_theirs(place) || (w->reply && heed_request(w) == RARE))
            return RARE;
        n->carried++;
        struct place *p = place_at(place);
        if (place != NOWHERE && p)
            held = rate_of(look(&p->state));
        __u64 most = offer(out, held);
        if (w->lowered > most)
            w->lowered = most;
        return GOES_ON;
    }
    if (place == NOWHERE && !w->rate && !w->expects) {
        n->carried++;
        return GOES_ON;
    }
    if (place == NOWHERE && w->reply && !(out->flags & IFACE_ANY_REPLIES) && heed_request(w) != GOES_ON)
        return STRANGER;
    int went = place == NOWHERE ? make(w) : renew(place, w);
    if (went == GOES_ON && w->refused)
        n->refused++;
    return went;
}
