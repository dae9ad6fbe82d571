/* libsluice: a guaranteed share of network, processor and disk for a C program, over the agent's local socket.
 *
 *     sluice *s;
 *     struct sluice_reservation r;
 *     struct sluice_part film = {"net/eth1", 6e6, 0, 0};
 *     if (sluice_open(NULL, &s) != SLUICE_OK || sluice_reserve(s, &film, 1, NULL, "film", NULL, &r) != SLUICE_OK)
 *         fprintf(stderr, "%s\n", sluice_why(s));
 *     sluice_bind_flow(s, r.handle, 0, &(struct sluice_flow){"10.0.0.1", "10.0.2.2", 17, 4000, 5004});
 *     ...
 *     sluice_cancel(s, r.handle);
 *     sluice_close(s);
 *
 * Every call waits for its answer, at most ten seconds. A connection is for one thread at a time. Link with
 * $(pkg-config --libs libsluice).
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns; sluice_why() says more. */
enum {
    SLUICE_OK = 0,
    SLUICE_REFUSED = 1,  /* no room, or not allowed: nothing has changed */
    SLUICE_MISUSE = 2,   /* the arguments make no sense */
    SLUICE_AWAY = 3,     /* no agent answers, or something broke */
    SLUICE_NOTHING = 4,  /* no event came in time */
};

/* A connection to an agent. */
typedef struct sluice sluice;

/* Connects to the agent that listens on this Unix socket; NULL is this machine's own agent, /run/sluice/agent.sock. The library
 * carries no TLS: other machines are reached through a broker. *s is set in any case, so that sluice_why() can be asked. */
int sluice_open(const char *socket, sluice **s);
/* Ends the connection. Reservations of the book stay; what was reserved by Boomerang is given back. */
void sluice_close(sluice *s);
/* Why the last call did not return SLUICE_OK: a sentence, good until the next call. */
const char *sluice_why(const sluice *s);

/* How much of one resource, in the resource's own unit: bit/s of IP bytes of net/..., cores of cpu, bytes a second of
 * disk/..., pieces of whatever is counted. */
struct sluice_part {
    const char *resource;
    double amount;
    double at_least;    /* the least that will do; 0: all of it */
    int background;     /* whether it only shares what foreground leaves */
};

/* An end that never comes. */
#define SLUICE_FOREVER INT64_MAX

/* When. Nothing is reserved for ever unless that is said; an enquiry with a NULL here, or without an end, is about what is
 * open at its end. */
struct sluice_when {
    int64_t start_s;    /* seconds since 1970, UTC; 0: now */
    int64_t end_s;      /* SLUICE_FOREVER: until it is given back; 0: not said */
    double duration_s;  /* in place of end_s; 0: not said */
    double hold_s;      /* only held so long, until sluice_commit(); 0: booked at once */
    int earliest;       /* as early as it fits, not before start_s, over by end_s; needs duration_s */
};

/* A five-tuple; NULL and 0 are anything. To Boomerang an address may be a prefix, "10.1.0.0/16". */
struct sluice_flow {
    const char *src;
    const char *dst;
    uint8_t protocol;   /* 6 is TCP, 17 UDP */
    uint16_t src_port;
    uint16_t dst_port;
};

#define SLUICE_PARTS 16

/* A reservation. */
struct sluice_reservation {
    char handle[64];
    char state[16];             /* held, promised, booked, active, suspended, ended, cancelled, expired */
    size_t parts;
    double now[SLUICE_PARTS];   /* what each part may have now */
};

/* Something that happened to a reservation. */
struct sluice_event {
    uint64_t seq;       /* sluice_follow() goes on after it */
    char handle[64];
    char event[16];     /* created, opened, share, ended, ... */
    int part;           /* which part, or -1 */
    double now;         /* share: what it has now; 0: suspended */
};

/* Reserves all parts or none. key is an idempotency key or NULL, label what you call it or NULL. */
int sluice_reserve(sluice *s, const struct sluice_part *parts, size_t count, const struct sluice_when *when, const char *label,
                   const char *key, struct sluice_reservation *made);
/* How much of a resource there could be over a window. */
int sluice_enquire(sluice *s, const char *resource, const struct sluice_when *when, double *free_);
/* Says whose packets or processes a part is for; a NULL flow or a pid of 0: nobody's. */
int sluice_bind_flow(sluice *s, const char *handle, size_t part, const struct sluice_flow *flow);
int sluice_bind_pid(sluice *s, const char *handle, size_t part, uint32_t pid);
/* Another amount of a part, from now on; if it does not fit, the old stays. */
int sluice_modify(sluice *s, const char *handle, size_t part, double amount);
/* Another end, or SLUICE_FOREVER. */
int sluice_extend(sluice *s, const char *handle, int64_t end_s);
/* Books what is held; shows; gives back. */
int sluice_commit(sluice *s, const char *handle, struct sluice_reservation *now);
int sluice_show(sluice *s, const char *handle, struct sluice_reservation *now);
int sluice_cancel(sluice *s, const char *handle);

/* From now on events come: after is the number of the last one seen, 0: from the oldest that is kept, UINT64_MAX: only new ones. */
int sluice_follow(sluice *s, uint64_t after);
/* The next event; SLUICE_NOTHING: none comes in time. */
int sluice_next_event(sluice *s, int timeout_ms, struct sluice_event *event);

/* Boomerang: one message to the far end and back, every aware node on its way reserves; kept up until it is released or
 * the connection ends. Returns when the answer is back. granted gets what was reserved, bit/s forward and reverse. With a
 * prefix as src or dst all packets between the two are one session (a protocol and ports of 0: any), and far_end is the host
 * there that answers. */
int sluice_boomerang_reserve(sluice *s, const char *far_end, const struct sluice_flow *flow, uint32_t forward_bps,
                             uint32_t reverse_bps, uint64_t *number, uint32_t granted[2]);
int sluice_boomerang_release(sluice *s, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
