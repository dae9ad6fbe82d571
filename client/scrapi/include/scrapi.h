/*
 * scrapi.h: RSVP in a few lines (draft-lindell-rsvp-scrapi-02, February 1999), over the Sluice agent of this machine.
 *
 *     scrapi_sender(SOCKADDR(&to), IPPROTO_UDP, SOCKADDR(&from), 1.25e6, 0);           at the sender
 *     scrapi_receiver(SOCKADDR(&to), IPPROTO_UDP, NULL, 1, scrapi_service_cl,          at the receiver
 *                     scrapi_style_distinct, 2000);
 *     if (scrapi_get_status(SOCKADDR(&to), IPPROTO_UDP, NULL) != scrapi_status_green) ...
 *     scrapi_close(NULL, 0, NULL);
 *
 * A flow is destination, protocol and source; a source of NULL is a flow of its own: at the sender the address of the
 * route, at the receiver all senders. Functions return 1, or 0 where scrapi_errno() says why. The library acts only
 * inside its functions: call scrapi_dispatch() when a descriptor of scrapi_poll_list() is readable. What is
 * registered ends with the process.
 *
 * The draft and the paper on RSVP with HFSC (Table 1 in docs/c.md) do not agree about the traffic that a bandwidth
 * means, nor about the shared style. The draft's meaning is the default; scrapi_translation() chooses.
 */
#ifndef SCRAPI_H
#define SCRAPI_H

#include <stdint.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOCKADDR(p) ((struct sockaddr *)(p))

typedef enum { scrapi_service_cl, scrapi_service_gs } scrapi_service;
typedef enum { scrapi_style_shared, scrapi_style_distinct } scrapi_style;

/*
 * red: no such flow, or an error. yellow: nothing is reserved yet. green: at least one reservation stands: the sender
 * has heard of one, the receiver has a confirmation.
 */
typedef enum { scrapi_status_red, scrapi_status_yellow, scrapi_status_green } scrapi_status;

/*
 * Announces a flow of bw bytes/s, or its new bandwidth; 0 ends it. With msecs above 0 it waits until a receiver has
 * reserved, an error comes, or the time is over; the announcement stays in any case.
 */
int scrapi_sender(const struct sockaddr *destination, int protocol, const struct sockaddr *source, double bw,
                  unsigned long msecs);

/*
 * Reserves for the senders of a flow, now and as they come, as much as each announces; reserve 0 ends it. With msecs
 * above 0 it waits until a confirmation or an error comes, or the time is over; the reservation stays asked for.
 */
int scrapi_receiver(const struct sockaddr *destination, int protocol, const struct sockaddr *source, int reserve,
                    scrapi_service service, scrapi_style style, unsigned long msecs);

/* Ends a flow; destination NULL: all flows of the process. */
int scrapi_close(const struct sockaddr *destination, int protocol, const struct sockaddr *source);

scrapi_status scrapi_get_status(const struct sockaddr *destination, int protocol, const struct sockaddr *source);

/*
 * The last error of a flow, or with destination NULL that of the last function: 0, a code of RSVP (RFC 2205 appendix
 * B), or 256 and a code of rapi.h.
 */
int scrapi_errno(const struct sockaddr *destination, int protocol, const struct sockaddr *source);
const char *scrapi_errlist(int error);
/* Prints the text and the flow's error to the stream of scrapi_stderr(). */
void scrapi_perror(const struct sockaddr *destination, int protocol, const struct sockaddr *source, const char *text);
/* The streams for errors (stderr at first) and for a line about each event (none at first); NULL: none. */
void scrapi_stderr(FILE *stream);
void scrapi_debug(FILE *stream);

/* Adds the descriptors of all flows to a set for select(); those of FD_SETSIZE and above do not fit. */
void scrapi_poll_list(fd_set *set);
int scrapi_dispatch(void);

/* Addresses of either family; ports in host byte order. */
int scrapi_sockaddr_multicast(const struct sockaddr *address);
/* Reads a numeric address, or asks the resolver; 0 where there is none. The room is a sockaddr_storage. */
int scrapi_sockaddr_parse(struct sockaddr *address, const char *name, uint16_t port);
/* In words; valid until the next call of the same thread. */
const char *scrapi_sockaddr_print(const struct sockaddr *address);
/* The address's 4 or 16 bytes, network byte order. */
const void *scrapi_sockaddr_get_addr(const struct sockaddr *address);
void scrapi_sockaddr_set_addr(struct sockaddr *address, const void *bytes);
uint16_t scrapi_sockaddr_get_port(const struct sockaddr *address);
void scrapi_sockaddr_set_port(struct sockaddr *address, uint16_t port);
/* The unspecified address of a family, port 0. */
void scrapi_sockaddr_any(struct sockaddr *address, int family);
socklen_t scrapi_sockaddr_length(const struct sockaddr *address);

/*
 * Ours, beyond the draft. draft: peak rate not bounded, shared is the wildcard style. seed: peak rate twice the
 * bandwidth, shared is shared-explicit. Both: token rate bw, bucket 2 bw (at least one packet), m 64, M the largest
 * MTU of this host's interfaces.
 */
typedef enum { scrapi_translation_draft, scrapi_translation_seed } scrapi_translation_t;
void scrapi_translation(scrapi_translation_t translation);
/* The socket of the agent for later flows; NULL: /run/sluice/agent.sock. */
void scrapi_agent(const char *socket);

#ifdef __cplusplus
}
#endif

#endif
