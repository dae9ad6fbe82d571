// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For measurements alone: leads prepared IPv4 messages past a program, another one at each run of a test run, so that
// no two in a row find their session in the cache. With nothing to jump to it is the harness's own cost.
//
// Build: make -C driver/linux/bpf (clang-14).

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define ICMP 1
#define ECHO_REQUEST 8

// What differs between two messages: ends of the packet, transaction, five-tuple, checksums.
struct step {
    __u32 src;
    __u32 dst;
    __u32 transaction;
    __u32 flow_src;
    __u32 flow_dst;
    __u32 flow_ports;
    __u16 header_sum;
    __u16 message_sum;
    __u32 zero;
};

struct progress {
    __u32 next;
    __u32 count;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1048576);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct step);
} steps SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct progress);
} progress SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} past SEC(".maps");

// Ethernet, IPv4 with Router Alert, ICMP, up to the mask.
struct frame {
    __u16 link[7];
    __u8 before[8];
    __u32 ttl_and_sum; // time to live, protocol, checksum
    __u32 src;
    __u32 dst;
    __u32 alert;
    __u32 type_and_sum; // type, code, checksum
    __u32 id;
    __u32 magic;
    __u32 transaction;
    __u32 head[4];
    __u32 flow_src;
    __u32 flow_dst;
    __u32 flow_ports;
} __attribute__((packed, aligned(2)));

SEC("xdp")
int parade(struct xdp_md *ctx)
{
    struct frame *f = (void *)(long)ctx->data;
    __u32 zero = 0;
    struct progress *p = bpf_map_lookup_elem(&progress, &zero);
    if ((void *)(f + 1) > (void *)(long)ctx->data_end || !p)
        return XDP_ABORTED;
    __u32 n = p->next++;
    if (p->next >= p->count)
        p->next = 0;
    struct step *s = bpf_map_lookup_elem(&steps, &n);
    if (!s)
        return XDP_ABORTED;
    // By whole words: a processor waits when a word is read of which it has just written a part.
    f->ttl_and_sum = (__u32)s->header_sum << 16 | ICMP << 8 | 64;
    f->type_and_sum = (__u32)s->message_sum << 16 | ECHO_REQUEST;
    f->src = s->src;
    f->dst = s->dst;
    f->transaction = s->transaction;
    f->flow_src = s->flow_src;
    f->flow_dst = s->flow_dst;
    f->flow_ports = s->flow_ports;
    bpf_tail_call(ctx, &past, 0);
    return XDP_PASS;
}

// The measure beside it: an IPv4 packet forwarded by the kernel's routes and nothing else, as an XDP router does.
SEC("xdp")
int forward(struct xdp_md *ctx)
{
    struct frame *f = (void *)(long)ctx->data;
    struct bpf_fib_lookup fib = {};
    if ((void *)(f + 1) > (void *)(long)ctx->data_end || f->link[6] != 0x0008 || (f->ttl_and_sum & 0xff) < 2)
        return XDP_PASS;
    fib.family = 2;
    fib.l4_protocol = f->ttl_and_sum >> 8 & 0xff;
    fib.ipv4_src = f->src;
    fib.ipv4_dst = f->dst;
    fib.ifindex = ctx->ingress_ifindex;
    if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
        return XDP_PASS;
    __u32 sum = (f->ttl_and_sum >> 16) + 1; // TTL is the upper half of its word
    sum += sum > 0xffff;
    f->ttl_and_sum = sum << 16 | ((f->ttl_and_sum - 1) & 0xffff);
    __builtin_memcpy(f->link, fib.dmac, 6);
    __builtin_memcpy(f->link + 3, fib.smac, 6);
    return bpf_redirect(fib.ifindex, 0);
}

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, __u64);
} arrived SEC(".maps");

// The end of the way: counts.
SEC("xdp")
int sink(void *ctx __attribute__((unused)))
{
    __u32 zero = 0;
    __u64 *n = bpf_map_lookup_elem(&arrived, &zero);
    if (n)
        __sync_fetch_and_add(n, 1);
    return XDP_DROP;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
