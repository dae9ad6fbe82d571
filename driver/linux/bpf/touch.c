// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For measurements alone, at the end of the parade in boomerang.c's place: reads whose message it is, looks up the first of
// the two rows that the session may be in, in the very table of boomerang.c, touches it, and does nothing else. What it
// costs is what this machine's memory costs any program with such a table.
//
// The next run waits for what this one has read, as the compare-and-swap of a refresh makes it wait; otherwise the
// processor would do several at a time.
//
// Build: make -C driver/linux/bpf (clang-14).

#include "packet.h"
#include "sessions.h"

// Ethernet, IPv4 with Router Alert, ICMP echo and container, as far as the Classifier (parade.c writes it).
struct frame {
    __u8 before[70];
    __u32 src;
    __u32 dst;
    __be16 src_port;
    __be16 dst_port;
    __u8 protocol;
} __attribute__((packed, aligned(2)));

// What the last run has read, less itself: zero, but no processor knows before it has read it.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} before SEC(".maps");

SEC("xdp")
int touch(struct xdp_md *ctx)
{
    const struct frame *f = (void *)(long)ctx->data;
    struct settings *set = the_settings();
    __u32 zero = 0;
    __u64 *last = bpf_map_lookup_elem(&before, &zero);
    if (!set || !last || (void *)(f + 1) > (void *)(long)ctx->data_end)
        return XDP_ABORTED;
    struct session_key k = {};
    k.who = (__u64)f->src << 32 | f->dst;
    k.where = (__u64)bpf_ntohs(f->src_port) << 48 | (__u64)bpf_ntohs(f->dst_port) << 32 | (__u64)f->protocol << 24;
    struct two_rows r;
    rows_of(set, &k, &r);
    struct row *row = row_at(r.first + *last);
    if (!row)
        return XDP_ABORTED;
    __u64 read = look(&row->at[0].who), same = read;
    asm volatile("" : "+r"(same)); // or the compiler would know the difference
    *last = read - same;
    return XDP_PASS;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
