// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Three-colour meters: srTCM (RFC 2697), trTCM (RFC 2698) and the meter of RFC 4115, colour-blind or colour-aware. Credit is
// counted in bit-nanoseconds, as in the token bucket, so nothing is divided or rounded; `traffic::meter` is the same in
// Rust and a test holds the two together.
//
// A rule with a meter has its profile and its credit in two maps of their own, by its slot: rules with one bucket pay
// nothing for them, and the layout of `rules` and `rule_states` is that of builds without meters. User space alone writes
// the profiles, the program alone the credit.

#define METERED 0x100 // a bit of `rule.mark` beside the code point: the rule has a meter

#define SRTCM 1
#define TRTCM 2
#define RFC4115 3

#define AWARE 1      // the incoming colour counts, and is never improved
#define RED_MARKED 2 // red packets are AF13; else they are the rule's excess

#define GREEN 0
#define YELLOW 1
#define RED 2

struct profile {
    __u32 form;
    __u32 flags;
    __u64 rate[2];  // committed, peak or excess, bit/s; of srTCM the second is zero
    __u64 burst[2]; // bit-nanoseconds
    __u64 fill[2];  // nanoseconds after which an empty bucket is full; of srTCM the first is that of both together
};

struct tally {
    __u64 packets;
    __u64 bytes;
};

struct credit {
    struct bpf_spin_lock lock;
    __u32 form; // of the meter that counted it; of another one: full buckets
    __u64 last;
    __u64 level[2];
    struct tally seen[4]; // green, yellow, red that went on, red that was excess
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct profile);
} rule_profiles SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __type(key, __u32);
    __type(value, struct credit);
} rule_credits SEC(".maps");

// The colour of a code point; green of one that is no AF1x.
static __always_inline __u32 color_of(__u32 dscp)
{
    return dscp == AF13 ? RED : dscp == AF12 ? YELLOW : GREEN;
}

// Credit after some time: at most the burst.
static __always_inline __u64 filled(__u64 level, __u64 rate, __u64 burst, __u64 fill, __u64 span)
{
    // Below the fill time the product is less than the burst: it cannot overflow.
    if (level >= burst || span >= fill || span * rate >= burst - level)
        return burst;
    return level + span * rate;
}

static __always_inline void refill(const struct profile *f, struct credit *c, __u64 span)
{
    if (f->form != SRTCM) {
        c->level[0] = filled(c->level[0], f->rate[0], f->burst[0], f->fill[0], span);
        c->level[1] = filled(c->level[1], f->rate[1], f->burst[1], f->fill[1], span);
        return;
    }
    // What the committed bucket has no room for goes to the excess bucket (RFC 2697 section 3).
    __u64 come = span >= f->fill[0] ? ~0ULL : span * f->rate[0];
    __u64 sum = c->level[0] + come;
    if (sum < come)
        sum = ~0ULL;
    __u64 over = sum > f->burst[0] ? sum - f->burst[0] : 0;
    c->level[0] = sum - over;
    // No overflow: both sides of the comparison are differences of what fits.
    if (c->level[1] >= f->burst[1] || over >= f->burst[1] - c->level[1])
        c->level[1] = f->burst[1];
    else
        c->level[1] += over;
}

// Colours a packet that came with a colour, and counts it.
static __always_inline __u32 meter(const struct profile *f, struct credit *c, const struct bill *b, __u32 came)
{
    __u64 cost = b->charge * BYTE;
    __u64 now = bpf_ktime_get_ns();
    __u32 color = RED;
    if (!(f->flags & AWARE))
        came = GREEN;
    bpf_spin_lock(&c->lock);
    if (c->form != f->form) {
        c->form = f->form;
        c->level[0] = f->burst[0];
        c->level[1] = f->burst[1];
        c->last = now;
    }
    refill(f, c, now > c->last ? now - c->last : 0);
    if (now > c->last)
        c->last = now;
    int first = c->level[0] >= cost, second = c->level[1] >= cost;
    if (f->form == TRTCM) {
        if (came != RED && second) {
            color = YELLOW;
            c->level[1] -= cost;
            if (came == GREEN && first) {
                color = GREEN;
                c->level[0] -= cost;
            }
        }
    } else if (came == GREEN && first) {
        color = GREEN;
        c->level[0] -= cost;
    } else if (came != RED && second) {
        color = YELLOW;
        c->level[1] -= cost;
    }
    struct tally *seen = color == GREEN    ? &c->seen[0]
                         : color == YELLOW ? &c->seen[1]
                         : f->flags & RED_MARKED ? &c->seen[2]
                                                 : &c->seen[3];
    seen->packets += b->packets;
    seen->bytes += b->bytes;
    bpf_spin_unlock(&c->lock);
    return color;
}

// The code point that the packet goes on with, if its meter lets it; negative: it is the rule's excess. A rule whose
// profile is not there (no build leaves one so) marks nothing.
static __always_inline int remark(__u32 slot, const struct bill *b, __u32 dscp)
{
    struct profile *f = bpf_map_lookup_elem(&rule_profiles, &slot);
    struct credit *c = bpf_map_lookup_elem(&rule_credits, &slot);
    if (!f || !c)
        return -1;
    __u32 color = meter(f, c, b, color_of(dscp));
    if (color == RED && !(f->flags & RED_MARKED))
        return -1;
    return AF11 + 2 * color;
}
