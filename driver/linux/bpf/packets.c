// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For measurements alone: leads IPv4 packets past a program of the egress, those of another flow at each run of a test
// run, so that no two in a row find their flow in the cache. With nothing to jump to it is the harness's own cost.
//
// Build: make -C driver/linux/bpf (clang-14).

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SRC 26 // in an Ethernet frame
#define TCX_NEXT -1

struct ends {
    __u32 src;
    __u32 dst;
};

struct progress {
    __u32 next;
    __u32 count;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1048576);
    __type(key, __u32);
    __type(value, struct ends);
} packets_ends SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct progress);
} packets_progress SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} packets_past SEC(".maps");

SEC("classifier")
int packets(struct __sk_buff *skb)
{
    __u32 zero = 0;
    struct progress *p = bpf_map_lookup_elem(&packets_progress, &zero);
    __u8 *at = (void *)(long)skb->data;
    if (!p || at + SRC + sizeof(struct ends) > (__u8 *)(long)skb->data_end)
        return TCX_NEXT;
    __u32 n = p->next++;
    if (p->next >= p->count)
        p->next = 0;
    struct ends *ends = bpf_map_lookup_elem(&packets_ends, &n);
    if (!ends)
        return TCX_NEXT;
    __builtin_memcpy(at + SRC, ends, sizeof(*ends));
    bpf_tail_call(skb, &packets_past, 0);
    return TCX_NEXT;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
