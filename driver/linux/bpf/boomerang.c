// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Boomerang in the kernel: reads the messages that pass (ICMP echo with the magic, draft-bergkvist-boomerang-spec-00),
// refreshes and makes their sessions, takes what they ask from the grant of the interface they leave by, rewrites and
// forwards them. The second copy of what `engine/boomerang` decides that is permitted (docs/decisions.md, 13): tests run
// the same messages through both and compare bytes and tables.
//
//   decided here         one flow, one rate, no option but the count of hops: set-up, refresh, change, release, refusal
//   told to user space   whatever else is a message: masks, multicast, other options, a grant that must grow,
//                        no room in the table, no way that the kernel knows. By the ring buffer, whole, with the
//                        interface; the packet is consumed. If the ring is full the packet goes on untouched, as
//                        through a node that is not aware.
//   let through          everything else
//
// `boomerang_xdp` and `boomerang_tc` are the same for an interface with and without XDP. `boomerang_egress` hangs behind
// flow.c at the egress and polices the sessions there (charge.h).
//
// Build: make -C driver/linux/bpf (clang-14); the object is shipped, and a test rebuilds and compares it.

#include "packet.h"
#include "sessions.h"
#include "message.h"
#include "reserve.h"
#include "charge.h"

#define ICMP 1
#define AF_INET 2
#define ROUTER_ALERT 0x9404 // the option, and its four octets
#define AF_INET6 10
#define MOST_CAPTURED 2032 // bytes of a packet that user space is shown
#define FEW_CAPTURED 240
#define TOLD_HEAD 16
#define MOST_PULLED 512
#define FITS_ANYWHERE 552
#define MOST_EXTENSIONS 3
#define TCX_NEXT -1
#define TCX_DROP 2

struct told {
    __u32 ifindex;
    __u32 reason;
    __u32 len;
    __u32 zero;
    __u8 packet[MOST_CAPTURED];
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
} ring SEC(".maps");

// Everything between reading a message and sending it on.
static __always_inline int pass(const struct settings *set, const struct message *m, struct work *w, __u32 iif, __u32 oif)
{
    __u64 refresh = m->echo->refresh;
    if (refresh > set->most_refresh)
        refresh = set->most_refresh;
    if (!refresh)
        refresh = 1;
    w->key.where |= oif;
    w->oif = oif;
    w->iif = iif;
    w->reply = m->reply;
    w->rate = bpf_ntohl(m->reply ? m->rate[1] : m->rate[0]);
    w->expects = !m->reply && m->rate[1];
    w->expiry = ((w->now + set->offset) >> TICK) + ((refresh * LIFE) >> TICK) + 1;
    w->transaction = bpf_ntohl(m->echo->transaction);
    w->nack = m->echo->flags & bpf_htons(NACK) ? 1 : 0;
    int went = reserve(set, w);
    if (went == GOES_ON)
        rewrite(set, m, w->lowered, w->refused);
    return went;
}

struct ethernet {
    __u8 dst[6];
    __u8 src[6];
    __be16 kind;
};

struct ipv4 {
    __u8 version_and_words;
    __u8 tos;
    __be16 length;
    __be16 id;
    __be16 fragment;
    __u8 ttl;
    __u8 protocol;
    __u16 checksum;
    __be32 src;
    __be32 dst;
};

struct ipv6 {
    __be32 head;
    __be16 payload;
    __u8 next;
    __u8 hop_limit;
    __be32 src[4];
    __be32 dst[4];
};

// Where a packet goes on: what bpf_fib_lookup says.
struct way {
    __u32 oif;
    __u32 reached; // the neighbour's address is known
    struct bpf_fib_lookup fib;
};

struct frame {
    void *data;
    void *end;
    __u32 iif;
    __u32 length; // IP bytes
    struct way way;
    struct work work;
};

// What is to be held against the way's MTU: no way that the kernel learns is too narrow for less (ip_rt_min_pmtu).
static __always_inline __u16 if_long(__u32 length)
{
    return length > FITS_ANYWHERE ? length : 0;
}

static __always_inline int look_up(void *ctx, struct frame *f)
{
    struct bpf_fib_lookup *fib = &f->way.fib;
    fib->ifindex = f->iif;
    long rc = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
    if (rc != BPF_FIB_LKUP_RET_SUCCESS && rc != BPF_FIB_LKUP_RET_NO_NEIGH)
        return NO_WAY;
    f->way.oif = fib->ifindex;
    f->way.reached = rc == BPF_FIB_LKUP_RET_SUCCESS;
    return GOES_ON;
}

// The link addresses that a frame leaves with, by halves: the compiler knows no alignment of single bytes.
static __always_inline void put_addresses(struct ethernet *e, const struct bpf_fib_lookup *fib)
{
    __u16 *to = (__u16 *)e;
    const __u16 *dmac = (const __u16 *)fib->dmac, *smac = (const __u16 *)fib->smac;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        to[i] = dmac[i];
        to[3 + i] = smac[i];
    }
}

static __always_inline int route4(void *ctx, struct frame *f, const struct ipv4 *ip)
{
    struct bpf_fib_lookup *fib = &f->way.fib;
    fib->family = AF_INET;
    fib->tos = ip->tos;
    fib->l4_protocol = ICMP;
    fib->tot_len = if_long(f->length);
    fib->ipv4_src = ip->src;
    fib->ipv4_dst = ip->dst;
    return look_up(ctx, f);
}

static __always_inline int route6(void *ctx, struct frame *f, const struct ipv6 *ip)
{
    struct bpf_fib_lookup *fib = &f->way.fib;
    fib->family = AF_INET6;
    fib->flowinfo = ip->head & bpf_htonl(0x0fffffff);
    fib->l4_protocol = ICMPV6;
    fib->tot_len = if_long(f->length);
    __builtin_memcpy(fib->ipv6_src, ip->src, 16);
    __builtin_memcpy(fib->ipv6_dst, ip->dst, 16);
    return look_up(ctx, f);
}

// Whether the frame leaves from here rather than by the kernel's own forwarding.
static __always_inline int goes_by_itself(struct frame *f)
{
    struct interface *out = interface_of(f->way.oif);
    if (!out || !(out->flags & IFACE_REDIRECTS))
        f->way.reached = 0;
    return f->way.reached;
}

static __always_inline int is_echo(const struct echo *e, __u8 request, __u8 reply)
{
    return e->magic == bpf_htonl(MAGIC) && (e->type == request || e->type == reply);
}

// An IPv4 packet: UNTOUCHED, a reason, or decided and rewritten.
static __always_inline int ipv4(void *ctx, const struct settings *set, struct frame *f, struct ipv4 *ip)
{
    if ((void *)(ip + 1) + 4 > f->end || ip->protocol != ICMP || ip->fragment & bpf_htons(0x3fff))
        return UNTOUCHED;
    __u32 words = ip->version_and_words & 15;
    if (ip->version_and_words >> 4 != 4 || words < 5)
        return UNTOUCHED;
    struct message4 *body = (void *)ip + words * 4;
    if ((void *)(&body->echo + 1) > f->end || !is_echo(&body->echo, 8, 0))
        return UNTOUCHED;
    f->length = bpf_ntohs(ip->length);
    __u32 rest = f->length - words * 4;
    if ((void *)ip + f->length > f->end || f->length < words * 4 + sizeof(*body) || ip->ttl < 2)
        return UNTOUCHED;
    if (words > 6 || (void *)(body + 1) > f->end || is_nobody4(ip->src) || is_nobody4(ip->dst))
        return RARE; // long options, or an address that only user space judges
    if (words == 6 && *(__be16 *)(ip + 1) != bpf_htons(ROUTER_ALERT))
        return RARE;
    __u64 sum = SUM(ip, 5);
    if (words == 6)
        sum += *(__u32 *)(ip + 1);
    if (fold(sum) != 0xffff)
        return UNTOUCHED;
    struct message m = {};
    struct work *w = &f->work;
    w->account = source_of(set, ip->src, 0, f->iif);
    w->now = bpf_ktime_get_coarse_ns();
    m.end = f->end;
    m.length = rest;
    int went = read4(body, &m, &w->key);
    if (went == GOES_ON) {
        rows_of(set, &w->key, &w->rows);
        ask_for(&w->rows);
        went = route4(ctx, f, ip);
    }
    if (went == GOES_ON)
        went = pass(set, &m, w, f->iif, f->way.oif);
    else if (went != UNTOUCHED && !may_say(set, w->account, w->now, MESSAGE))
        went = TOO_MANY; // told to user space: of the source's allowance
    if (went == GOES_ON && goes_by_itself(f)) {
        // Time to live is the first half of its word, which is read and written whole.
        __be16 *word = (__be16 *)&ip->ttl, old = *word, new = old - bpf_ntohs(0x0100);
        *word = new;
        replaced(&ip->checksum, old, new);
    }
    return went;
}

static __always_inline int ipv6(void *ctx, const struct settings *set, struct frame *f, struct ipv6 *ip)
{
    if ((void *)(ip + 1) > f->end || (ip->head & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
        return UNTOUCHED;
    __u32 rest = bpf_ntohs(ip->payload), at = sizeof(*ip);
    __u8 next = ip->next;
    int rare = 0;
    // Router Alert and two octets of padding are seen here; any other extension header is for user space.
#pragma unroll
    for (int i = 0; i < MOST_EXTENSIONS; i++) {
        __u8 *extension = (void *)ip + at;
        if (next != 0 && next != 43 && next != 60)
            break;
        if ((void *)(extension + 8) > f->end)
            return UNTOUCHED;
        rare |= next || extension[1] || extension[2] != 5 || extension[3] != 2 || extension[6] != 1 || extension[7];
        next = extension[0];
        at += (extension[1] + 1) * 8;
        rest -= (extension[1] + 1) * 8;
    }
    struct message6 *body = (void *)ip + at;
    if (next != ICMPV6 || (void *)(&body->echo + 1) > f->end || !is_echo(&body->echo, 128, 129))
        return UNTOUCHED;
    f->length = bpf_ntohs(ip->payload) + sizeof(*ip);
    if ((void *)ip + f->length > f->end || rest < sizeof(*body) || rest > 0xffff || ip->hop_limit < 2)
        return UNTOUCHED;
    if (rare || (void *)(body + 1) > f->end || is_nobody6(ip->src) || is_nobody6(ip->dst))
        return RARE;
    struct message m = {};
    struct work *w = &f->work;
    w->account = source_of(set, (__u64)ip->src[0] << 32 | ip->src[1], (__u64)ip->src[2] << 32 | ip->src[3], f->iif);
    w->now = bpf_ktime_get_coarse_ns();
    m.end = f->end;
    m.length = rest;
    m.pseudo = SUM(ip->src, 8) + bpf_htonl(rest) + bpf_htonl(ICMPV6);
    int went = read6(set, body, &m, &w->key);
    if (went == GOES_ON) {
        rows_of(set, &w->key, &w->rows);
        ask_for(&w->rows);
        went = route6(ctx, f, ip);
    }
    if (went == GOES_ON)
        went = pass(set, &m, w, f->iif, f->way.oif);
    else if (went != UNTOUCHED && !may_say(set, w->account, w->now, MESSAGE))
        went = TOO_MANY; // told to user space: of the source's allowance
    if (went == GOES_ON && goes_by_itself(f))
        ip->hop_limit--;
    return went;
}

// What becomes of a frame.
#define PASSES 0  // to the kernel, as it is now
#define LEAVES 1  // out of f->way.oif
#define STAYS 2   // consumed: user space has it

// Tells user space of a packet; whether it could.
static __always_inline int tell_in(void *ctx, __u32 iif, __u32 length, int reason, int xdp, const __u32 room)
{
    struct told *t = bpf_ringbuf_reserve(&ring, TOLD_HEAD + room, 0);
    if (!t)
        return 0;
    t->ifindex = iif;
    t->reason = reason;
    t->len = length;
    t->zero = 0;
    asm volatile("" : "+r"(length)); // bounded where the verifier sees it
    if (length - 1 < room &&
        !(xdp ? bpf_xdp_load_bytes(ctx, sizeof(struct ethernet), t->packet, length)
              : bpf_skb_load_bytes(ctx, sizeof(struct ethernet), t->packet, length))) {
        bpf_ringbuf_submit(t, 0);
        return 1;
    }
    bpf_ringbuf_discard(t, 0);
    return 0;
}

// Whether somebody reads the ring. When its agent is gone messages go on untouched, as through a node that is not aware.
static __always_inline int is_read(const struct settings *set)
{
    __u64 until = *(const volatile __u64 *)&set->read_until;
    return !until || bpf_ktime_get_coarse_ns() + set->offset < until;
}

static __noinline int tell(void *ctx, __u32 iif, __u32 length, int reason, int xdp)
{
    struct counts *n = counters();
    int heard = length > FEW_CAPTURED ? tell_in(ctx, iif, length, reason, xdp, MOST_CAPTURED)
                                      : tell_in(ctx, iif, length, reason, xdp, FEW_CAPTURED);
    if (n && heard)
        n->told++;
    else if (n)
        n->unheard++;
    return heard;
}

static __always_inline int silence(void)
{
    struct counts *n = counters();
    if (n)
        n->silenced++;
    return STAYS;
}

static __always_inline int handle(void *ctx, struct frame *f, int xdp)
{
    __u32 zero = 0;
    struct settings *set = bpf_map_lookup_elem(&settings, &zero);
    struct interface *in = interface_of(f->iif);
    struct ethernet *e = f->data;
    int went;
    if (!set || !in || !(in->flags & IFACE_LISTENS) || (void *)(e + 1) > f->end)
        return PASSES;
    if (e->kind == bpf_htons(ETH_IPV4))
        went = ipv4(ctx, set, f, (void *)(e + 1));
    else if (e->kind == bpf_htons(ETH_IPV6))
        went = ipv6(ctx, set, f, (void *)(e + 1));
    else
        return PASSES;
    if (went == UNTOUCHED)
        return PASSES;
    if (went == TOO_MANY)
        return silence();
    if (went != GOES_ON)
        return is_read(set) && tell(ctx, f->iif, f->length, went, xdp) ? STAYS : PASSES;
    if (!f->way.reached)
        return PASSES;
    put_addresses(e, &f->way.fib);
    return LEAVES;
}

SEC("xdp")
int boomerang_xdp(struct xdp_md *ctx)
{
    struct frame f = {};
    f.data = (void *)(long)ctx->data;
    f.end = (void *)(long)ctx->data_end;
    f.iif = ctx->ingress_ifindex;
    int became = handle(ctx, &f, 1);
    if (became == LEAVES)
        return bpf_redirect(f.way.oif, 0);
    return became == STAYS ? XDP_DROP : XDP_PASS;
}

SEC("classifier")
int boomerang_tc(struct __sk_buff *ctx)
{
    struct frame f = {};
    if (ctx->protocol != bpf_htons(ETH_IPV4) && ctx->protocol != bpf_htons(ETH_IPV6))
        return TCX_NEXT;
    // Messages are short; what lies in several pieces is put together, or it would be let through.
    if (ctx->len <= MOST_PULLED && (void *)(long)ctx->data + ctx->len > (void *)(long)ctx->data_end)
        bpf_skb_pull_data(ctx, ctx->len);
    f.data = (void *)(long)ctx->data;
    f.end = (void *)(long)ctx->data_end;
    f.iif = ctx->ingress_ifindex;
    int became = handle(ctx, &f, 0);
    if (became == LEAVES)
        return bpf_redirect(f.way.oif, 0);
    return became == STAYS ? TCX_DROP : TCX_NEXT;
}

SEC("classifier")
int boomerang_egress(struct __sk_buff *skb)
{
    __u32 given = skb->priority;
    asm volatile("" : "+r"(given));
    __u32 class = given & 0xffff;
    if (given >> 16 == MAJOR && (class < FIRST_MARKED || class > LAST_MARKED))
        return TCX_NEXT;
    __s64 priority = charge(skb);
    if (priority >= 0) {
        skb->priority = priority;
        skb->cb[0] = JUDGED;
    }
    return TCX_NEXT;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
