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

/* ---- several parts as one reservation, all or none, over one or more agents: by a broker of this machine ----
 *
 *     struct sluice_item way = {NULL, 6e6, "10.0.0.1", "10.0.2.2", 0};
 *     struct sluice_item cpu[2] = {{"maui/cpu", 0.5, NULL, NULL, 0}, {"glenwood/cpu", 0.5, NULL, NULL, 0}};
 *     struct sluice_need needs[2] = {{"network", 1, &way, NULL, "smaller 0.5"}, {"processor", 2, cpu, NULL, NULL}};
 *     struct sluice_when hour = {0, 0, 3600, 0, 0};
 *     struct sluice_news news;
 *     sluice_together *t;
 *     if (sluice_together_make(NULL, needs, 2, "retry 2, another, later 600", &hour, "film-17", 0, 0, &t) != SLUICE_OK)
 *         fprintf(stderr, "%s\n", sluice_together_why(t));
 *     while (sluice_together_next(t, 60000, &news) == SLUICE_OK || ...)
 *         puts(news.text);
 *     sluice_together_cancel(t);
 *     sluice_together_close(t);
 *
 * A strategy is a text of steps with commas between them:
 *     retry TIMES [PAUSE [FACTOR [LONGEST]]]   asks again for the same, after a pause in seconds (0.5) that grows by a
 *                                              factor (2) up to the longest (30)
 *     another                                  asks for the part's next alternative
 *     smaller SHARE                            takes what is free, down to this share of each amount
 *     later SECONDS                            takes the earliest time for all parts that begins within this span
 * Each refusal names a part, and its strategy takes one step; the step that is named first changes fastest. If the
 * reservation breaks at an agent, a new whole one takes its place by the same strategies, until the old end.
 */

/* One item: so much of a resource of an agent, "AGENT/NAME"; or, with a resource of NULL, the network between two hosts. */
struct sluice_item {
    const char *resource;
    double amount;      /* in the resource's unit; between hosts: bit/s from the first to the second */
    const char *from;
    const char *to;
    double reverse;     /* between hosts: bit/s back */
};

/* A part: its alternatives, best first. One part at most is between two hosts. */
struct sluice_need {
    const char *name;
    size_t alternatives;
    const struct sluice_item *items; /* those of the first alternative, then those of the second, ... */
    const size_t *counts;            /* how many items each alternative has, which go together; NULL: one each */
    const char *strategy;            /* NULL: that of the call */
};

#define SLUICE_NEEDS 16

/* What was done, or happened. */
enum {
    SLUICE_NEWS_REFUSED = 1,   /* a request was refused */
    SLUICE_NEWS_PAUSE = 2,     /* there is a pause before the next one */
    SLUICE_NEWS_GAVE_BACK = 3, /* a reservation was given back */
    SLUICE_NEWS_MADE = 4,      /* a reservation was made, or found */
    SLUICE_NEWS_BROKEN = 5,    /* a part of it is over or missing */
    SLUICE_NEWS_REPAIRED = 6,  /* a new one is in its place */
    SLUICE_NEWS_LOST = 7,      /* no strategy is left: it is over */
    SLUICE_NEWS_OVER = 8,      /* it is over */
    SLUICE_NEWS_AWAY = 9,      /* the broker does not answer; it is asked again */
};

struct sluice_news {
    int what;
    char part[64];      /* the part that it is about, by its name */
    char place[192];    /* a resource, an agent, or two hosts */
    char text[1024];    /* in words */
};

/* A co-reservation, for one thread at a time. */
typedef struct sluice_together sluice_together;

/* Reserves all parts or none. broker is the path of a Unix socket or http://127.0.0.1:PORT; NULL: /run/sluice/broker.sock.
 * strategy is for parts that have none. when needs a duration or an end. name is the label, or NULL: what a program of the
 * same name has made is taken over, also one that was killed in the middle, and one lives at a time. attempts is the most
 * requests that are refused (0: 20), patience_s the longest time (0: 60), for the first time and for each repair. *t is
 * set in any case. SLUICE_REFUSED: no strategy is left, and sluice_together_why() says which part, where, why, and what
 * was tried. SLUICE_AWAY: not within this time. */
int sluice_together_make(const char *broker, const struct sluice_need *needs, size_t count, const char *strategy,
                         const struct sluice_when *when, const char *name, size_t attempts, double patience_s,
                         sluice_together **t);
/* The next of the news, those of sluice_together_make() first; looks at the reservation twice a second meanwhile, and repairs
 * it. SLUICE_NOTHING: nothing happened in time, or it is over. A repair may take longer than the timeout. */
int sluice_together_next(sluice_together *t, int timeout_ms, struct sluice_news *news);
/* Its name at the broker and its state, as they were last seen; where a part is, counted from 0. */
int sluice_together_state(sluice_together *t, char id[96], char state[16]);
int sluice_together_place(sluice_together *t, size_t part, char place[192]);
/* Gives all of it back. */
int sluice_together_cancel(sluice_together *t);
/* Ends the object; the reservation stays. */
void sluice_together_close(sluice_together *t);
/* Why the last call did not return SLUICE_OK: a sentence, good until the next call. */
const char *sluice_together_why(const sluice_together *t);

#ifdef __cplusplus
}
#endif

#endif
