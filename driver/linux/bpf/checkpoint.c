// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A checkpoint: says when a signalling message passed one side of one interface, and what its first bytes were. RSVP
// (IPv4, protocol 46) and Boomerang (ICMP echo with the magic, draft-bergkvist-boomerang-spec-00) are signalling.
// Each checkpoint is a copy of its own of this program, so the program need not say where it hangs. It changes nothing.
//
// Build: make -C driver/linux/bpf (clang-14); the object is shipped, and a test rebuilds and compares it.

#include "packet.h"

#define ETH_HEADER 14
#define ICMP 1
#define ECHO_REPLY 0
#define ECHO_REQUEST 8
#define MAGIC 0x47114711
#define IPV4_LEAST 20
#define KEPT 128     // bytes that are kept, from the IP header on
#define TCX_NEXT -1
#define NO_WAKEUP 1  // BPF_RB_NO_WAKEUP: whoever reads looks by itself, and nobody is woken in the middle of a measurement

struct seen {
    __u64 at;  // CLOCK_MONOTONIC, nanoseconds
    __u32 len; // of what is kept
    __u32 zero;
    __u8 bytes[KEPT];
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} seen SEC(".maps");

static __always_inline int is_signalling(struct __sk_buff *skb)
{
    __u8 ip[IPV4_LEAST];
    struct {
        __u8 type;
        __u8 code;
        __u16 rest[3];
        __be32 magic;
    } echo;

    if (skb->protocol != bpf_htons(ETH_IPV4) || bpf_skb_load_bytes(skb, ETH_HEADER, ip, sizeof(ip)))
        return 0;
    if (ip[9] == RSVP)
        return 1;
    if (ip[9] != ICMP || bpf_skb_load_bytes(skb, ETH_HEADER + (ip[0] & 0xf) * 4, &echo, sizeof(echo)))
        return 0;
    return (echo.type == ECHO_REQUEST || echo.type == ECHO_REPLY) && echo.magic == bpf_htonl(MAGIC);
}

SEC("classifier")
int sluice_checkpoint(struct __sk_buff *skb)
{
    __u64 now = bpf_ktime_get_ns();
    struct seen *record;
    __u64 len;

    if (!is_signalling(skb))
        return TCX_NEXT;
    record = bpf_ringbuf_reserve(&seen, sizeof(*record), 0);
    if (!record)
        return TCX_NEXT;
    len = skb->len - ETH_HEADER;
    if (len > KEPT)
        len = KEPT;
    // For the verifier: from here on it knows of the length what is asked next, and the compiler does not.
    asm volatile("" : "+r"(len));
    if (len < IPV4_LEAST || len > KEPT || bpf_skb_load_bytes(skb, ETH_HEADER, record->bytes, len)) {
        bpf_ringbuf_discard(record, NO_WAKEUP);
        return TCX_NEXT;
    }
    record->at = now;
    record->len = len;
    record->zero = 0;
    bpf_ringbuf_submit(record, NO_WAKEUP);
    return TCX_NEXT;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
