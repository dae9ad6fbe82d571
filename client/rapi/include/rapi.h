/*
 * rapi.h: the RSVP application interface, RAPI, over the Sluice agent of this machine.
 *
 * Names and types are those of The Open Group's Technical Standard C809 (December 1998). It leaves most
 * numbers open; the numbers here that C809 or draft-ietf-rsvp-rapi-00 does not fix are our own choice.
 * Rates are bytes per second, sizes bytes. Addresses and ports are in network byte order, as in a sockaddr.
 *
 * A function may be called from any thread. Upcalls run only inside rapi_dispatch(), in its thread, and may
 * call every function here. What a session registered ends with rapi_release() and with the process. A child
 * of fork() has no sessions.
 */
#ifndef RAPI_H
#define RAPI_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 100 * major + minor, the value of rapi_version(). */
#define RAPI_VERSION 600

typedef float float32_t;
typedef struct sockaddr rapi_addr_t;
typedef unsigned int rapi_sid_t;
#define RAPI_NULL_SID 0

/* ---- objects: a header, then a body of its format ---- */

typedef enum {
    RAPI_EMPTY_OTYPE = 0,
    RAPI_FLOWSTYPE_Intserv = 2,
    RAPI_FLOWSTYPE_Simplified = 3,
    RAPI_TSPECTYPE_Intserv = 17,
    RAPI_TSPECTYPE_Simplified = 18,
    RAPI_ADSTYPE_Intserv = 33,
    RAPI_ADSTYPE_Simplified = 34,
    RAPI_FILTERFORM_BASE = 258,
    RAPI_FILTERFORM_GPI = 259,
    RAPI_FILTERFORM_BASE6 = 260,
    RAPI_FILTERFORM_GPI6 = 261
} rapi_format_t;

typedef struct {
    unsigned int len; /* bytes, with this header */
    rapi_format_t form;
} rapi_hdr_t;

/* Lists are objects back to back. */
#define RAPIObj_Size(p) (((rapi_hdr_t *)(p))->len)
#define RAPIObj_data(p) ((rapi_hdr_t *)(p) + 1)
#define After_RAPIObj(p) ((char *)(p) + RAPIObj_Size(p))

typedef enum {
    RAPI_QOS_TSPEC = 1,
    RAPI_QOS_CNTR_LOAD = 2,
    RAPI_QOS_GUARANTEED = 3
} rapi_qos_service_t;

typedef struct {
    float32_t spec_Tspec_b; /* bucket depth, bytes */
    float32_t spec_Tspec_r; /* token rate, bytes/s */
    float32_t spec_Tspec_p; /* peak rate, bytes/s; infinite: not bounded */
    uint32_t spec_Tspec_m;  /* minimum policed unit, bytes */
    uint32_t spec_Tspec_M;  /* maximum packet size, bytes */
} rapi_qos_Tspec_body;

typedef struct {
    rapi_qos_service_t spec_type;
    rapi_qos_Tspec_body xspec_Tspec;
    float32_t xspec_R; /* guaranteed service: rate, bytes/s */
    uint32_t xspec_S;  /* guaranteed service: slack, microseconds */
} rapi_qos_flowspecx_t;
#define xspec_r xspec_Tspec.spec_Tspec_r
#define xspec_b xspec_Tspec.spec_Tspec_b
#define xspec_p xspec_Tspec.spec_Tspec_p
#define xspec_m xspec_Tspec.spec_Tspec_m
#define xspec_M xspec_Tspec.spec_Tspec_M

typedef struct {
    rapi_qos_service_t spec_type; /* RAPI_QOS_TSPEC */
    rapi_qos_Tspec_body xtspec_Tspec;
} rapi_qos_tspecx_t;
#define xtspec_r xtspec_Tspec.spec_Tspec_r
#define xtspec_b xtspec_Tspec.spec_Tspec_b
#define xtspec_p xtspec_Tspec.spec_Tspec_p
#define xtspec_m xtspec_Tspec.spec_Tspec_m
#define xtspec_M xtspec_Tspec.spec_Tspec_M

#define RAPI_XASPEC_FLG_BRK 0x01  /* some hop does not have the service */
#define RAPI_XASPEC_FLG_IGN 0x02  /* the sender does not offer the service */
#define RAPI_XASPEC_FLG_PARM 0x04 /* the service's own parameters are here */

typedef struct {
    uint8_t xaspec_flags;
    uint16_t xaspec_hopcnt;
    float32_t xaspec_path_bw;     /* bytes/s; infinite: no hop says */
    uint32_t xaspec_min_latency;  /* microseconds; all ones: unknown */
    uint32_t xaspec_composed_MTU; /* bytes */
    /* controlled load */
    uint8_t xClaspec_flags;
    uint8_t xClaspec_override; /* 1: the values below replace those above; here always 0 */
    uint16_t xClaspec_hopcnt;
    float32_t xClaspec_path_bw;
    uint32_t xClaspec_min_latency;
    uint32_t xClaspec_composed_MTU;
    /* guaranteed service */
    uint8_t xGaspec_flags;
    uint32_t xGaspec_Ctot; /* bytes */
    uint32_t xGaspec_Dtot; /* microseconds */
    uint32_t xGaspec_Csum;
    uint32_t xGaspec_Dsum;
    uint8_t xGaspec_override; /* here always 0 */
    uint16_t xGaspec_hopcnt;
    float32_t xGaspec_path_bw;
    uint32_t xGaspec_min_latency;
    uint32_t xGaspec_composed_MTU;
} rapi_qos_adspecx_t;

/*
 * The body of an Intserv object: the bytes of RFC 2210 section 3, in network byte order, without the header
 * of the RSVP object. The object's len says how many there are.
 */
typedef struct {
    uint8_t IS_bytes[4];
} rapi_IS_body_t;

typedef struct {
    unsigned int len;
    rapi_format_t form;
    union {
        rapi_qos_flowspecx_t qosx;
        rapi_IS_body_t IS;
    } specbody_u;
} rapi_flowspec_t;
#define specbody_qosx specbody_u.qosx
#define specbody_IS specbody_u.IS

typedef struct {
    unsigned int len;
    rapi_format_t form;
    union {
        rapi_qos_tspecx_t qosxt;
        rapi_IS_body_t ISt;
    } tspecbody_u;
} rapi_tspec_t;
#define tspecbody_qosx tspecbody_u.qosxt
#define tspecbody_IS tspecbody_u.ISt

typedef struct {
    unsigned int len;
    rapi_format_t form;
    union {
        rapi_qos_adspecx_t adsx;
        rapi_IS_body_t ISa;
    } adsbody_u;
} rapi_adspec_t;
#define adspecbody_qosx adsbody_u.adsx
#define adspecbody_IS adsbody_u.ISa

typedef struct {
    struct sockaddr_in sender;
} rapi_filter_base_t;
typedef struct {
    struct in_addr sender;
    uint32_t gpi; /* the security parameter index, network byte order */
} rapi_filter_gpi_t;
typedef struct {
    struct sockaddr_in6 sender;
} rapi_filter_base6_t;
typedef struct {
    struct in6_addr sender;
    uint32_t gpi;
} rapi_filter_gpi6_t;

typedef struct {
    unsigned int len;
    rapi_format_t form;
    union {
        rapi_filter_base_t base;
        rapi_filter_gpi_t gpi;
        rapi_filter_base6_t base6;
        rapi_filter_gpi6_t gpi6;
    } filt_u;
} rapi_filter_t;
#define rapi_filt4 filt_u.base.sender
#define rapi_filtbase4_addr rapi_filt4.sin_addr
#define rapi_filtbase4_port rapi_filt4.sin_port
#define rapi_filtgpi4 filt_u.gpi
#define rapi_filtgpi4_addr rapi_filtgpi4.sender
#define rapi_filtgpi4_gpi rapi_filtgpi4.gpi
#define rapi_filt6 filt_u.base6.sender
#define rapi_filtbase6_addr rapi_filt6.sin6_addr
#define rapi_filtbase6_port rapi_filt6.sin6_port
#define rapi_filtgpi6 filt_u.gpi6
#define rapi_filtgpi6_addr rapi_filtgpi6.sender
#define rapi_filtgpi6_gpi rapi_filtgpi6.gpi

/* Policy data is not carried: a call that has some is refused with RAPI_ERR_UNSUPPORTED. */
typedef struct {
    unsigned int len;
    rapi_format_t form;
} rapi_policy_t;

/* ---- styles ---- */

typedef enum {
    RAPI_RSTYLE_WILDCARD = 1, /* one reservation for all senders */
    RAPI_RSTYLE_FIXED = 2,    /* one for each sender */
    RAPI_RSTYLE_SE = 3        /* one for the senders that are named */
} rapi_styleid_t;
typedef void rapi_stylex_t; /* undefined in C809: give NULL */

/* ---- upcalls ---- */

/*
 * Numbers of filters / flowspecs / adspecs:
 *   PATH_EVENT    n/n/n  every sender known now; the second list holds Tspecs (RAPI_TSPECTYPE_*). An adspec
 *                        may be empty (RAPI_EMPTY_OTYPE). None at all: the last sender is gone.
 *   RESV_EVENT    1/1/0  for the sender of this session; 1/0/0: the reservation is gone
 *   PATH_ERROR    1/1/0  the filter is the sender template, the second list its Tspec
 *   RESV_ERROR    n/1/0  n is 0 where the error names no sender; 0 flowspecs where it carries none
 *   RESV_CONFIRM  1/1/0
 */
typedef enum {
    RAPI_PATH_EVENT = 1,
    RAPI_RESV_EVENT = 2,
    RAPI_PATH_ERROR = 3,
    RAPI_RESV_ERROR = 4,
    RAPI_RESV_CONFIRM = 5
} rapi_eventinfo_t;

#define RAPI_ERRF_InPlace 0x01   /* an older reservation stays in place */
#define RAPI_ERRF_NotGuilty 0x02 /* the request of another receiver failed */

/* C809 has int; it may return anything. Lists and ErrorNode are the library's, and end with the upcall. */
typedef int rapi_event_rtn_t(rapi_sid_t Sid, rapi_eventinfo_t EventType, rapi_styleid_t Style, int ErrorCode,
                             int ErrorValue, rapi_addr_t *ErrorNode, unsigned int ErrorFlags, int FilterSpecNo,
                             rapi_filter_t *FilterSpec_list, int FlowspecNo, rapi_flowspec_t *Flowspec_list,
                             int AdspecNo, rapi_adspec_t *Adspec_list, void *Event_arg);

/* ---- errors of the functions ---- */

#define RAPI_ERR_OK 0
#define RAPI_ERR_INVAL 1     /* a parameter is invalid */
#define RAPI_ERR_MAXSESS 2   /* too many sessions */
#define RAPI_ERR_BADSID 3    /* no such session */
#define RAPI_ERR_N_FFS 4     /* wrong number of filters or flowspecs for the style */
#define RAPI_ERR_BADSTYLE 5  /* no such style */
#define RAPI_ERR_SYSCALL 6   /* a system call failed; see errno */
#define RAPI_ERR_OVERFLOW 7  /* a list is too long */
#define RAPI_ERR_MEMFULL 8   /* no memory */
#define RAPI_ERR_NORSVP 9    /* no agent answers */
#define RAPI_ERR_OBJTYPE 10  /* an object of a wrong format */
#define RAPI_ERR_OBJLEN 11   /* an object of a wrong length */
#define RAPI_ERR_NOTSPEC 12  /* no sender Tspec */
#define RAPI_ERR_INTSERV 13  /* an Intserv object that cannot be read */
/* C809 gives these no numbers. */
#define RAPI_ERR_GPI_CONFLICT 14 /* ports and security parameter indexes in one session */
#define RAPI_ERR_BADPROTO 15     /* the protocol is none of IP's */
#define RAPI_ERR_BADVDPORT 16    /* a security session needs a virtual port */
#define RAPI_ERR_GPISESS 17      /* a security session needs GPI filters, and others must not have them */
#define RAPI_ERR_BADSEND 18      /* asynchronous: the sender's address is not this host's */
#define RAPI_ERR_BADRECV 19      /* asynchronous: the session's address is not this host's */
#define RAPI_ERR_BADSPORT 20     /* asynchronous: ports for a protocol that has none */
#define RAPI_ERR_UNSUPPORTED 254 /* not supported: policy data, sender adspec */
#define RAPI_ERR_UNKNOWN 255

/* Codes of RSVP's errors in upcalls (RFC 2205 appendix B). */
#define RSVP_Err_NONE 0
#define RSVP_Err_ADMISSION 1
#define RSVP_Err_POLICY 2
#define RSVP_Err_NO_PATH 3
#define RSVP_Err_NO_SENDER 4
#define RSVP_Err_BAD_STYLE 5
#define RSVP_Err_UNKNOWN_STYLE 6
#define RSVP_Err_BAD_DSTPORT 7
#define RSVP_Err_BAD_SNDPORT 8
#define RSVP_Err_PREEMPTED 12
#define RSVP_Err_UNKN_OBJ_CLASS 13
#define RSVP_Err_UNKNOWN_CTYPE 14
#define RSVP_Err_API_ERROR 20
#define RSVP_Err_TC_ERROR 21
#define RSVP_Err_TC_SYS_ERROR 22
#define RSVP_Err_RSVP_SYS_ERROR 23

/* ---- functions ---- */

#define RAPI_USE_INTSERV 0x10 /* upcalls carry Intserv objects */
#define RAPI_GPI_SESSION 0x40 /* protocol ESP or AH, with a virtual port (RFC 2207) */

/*
 * A session: destination (address and port) and protocol; 0 is UDP. Returns RAPI_NULL_SID and sets *Errnop
 * where it fails. Path events come for destinations of this host and for groups.
 */
rapi_sid_t rapi_session(rapi_addr_t *Dest, int Protid, unsigned int Flags, rapi_event_rtn_t *Event_rtn, void *Event_arg,
                        int *Errnop);

/*
 * The session's one sender, or its new traffic. LHost is its address and port (an address of zeros: that of
 * the route to the destination); NULL withdraws it. SenderTemplate may be given instead of LHost's address.
 */
int rapi_sender(rapi_sid_t Sid, unsigned int Flags, rapi_addr_t *LHost, rapi_filter_t *SenderTemplate,
                rapi_tspec_t *SenderTspec, rapi_adspec_t *SenderAdspec, rapi_policy_t *SenderPolicy, int TTL);

#define RAPI_REQ_CONFIRM 0x20 /* a RESV_CONFIRM is wanted */

/*
 * A reservation, or the change of one: WILDCARD takes one flowspec, FIXED as many as filters, SE one for all
 * filters. FlowspecNo 0 removes it. Success says that the agent took the request; an upcall has its result.
 */
int rapi_reserve(rapi_sid_t Sid, unsigned int Flags, rapi_addr_t *RHost, rapi_styleid_t StyleId,
                 rapi_stylex_t *Style_Ext, rapi_policy_t *Rcvr_Policy, int FilterSpecNo,
                 rapi_filter_t *FilterSpec_list, int FlowspecNo, rapi_flowspec_t *Flowspec_list);

/* Ends a session with all that it registered. */
int rapi_release(rapi_sid_t Sid);

/*
 * A descriptor that is readable when rapi_dispatch() has something to do; -1: no such session. It stays the
 * same while the agent is away and after it came back. For poll, select and epoll only: never read or close it.
 */
int rapi_getfd(rapi_sid_t Sid);

/*
 * Runs the upcalls that wait, of all sessions, and never blocks. RAPI_ERR_NORSVP: an agent went away. The
 * library tries again every half second, registers everything again, and the events come anew.
 */
int rapi_dispatch(void);

/* 100 * major + minor of the library. */
int rapi_version(void);

/* An error in words: of a function (ErrorValue is not used), or with code 20 of an upcall; NULL: no such one. */
const char *rapi_strerror(int ErrorCode, int ErrorValue);

/* Objects in words, cut to what the buffer holds. */
void rapi_fmt_flowspec(rapi_flowspec_t *specp, char *buffer, int length);
void rapi_fmt_tspec(rapi_tspec_t *tspecp, char *buffer, int length);
void rapi_fmt_adspec(rapi_adspec_t *adspecp, char *buffer, int length);
void rapi_fmt_filtspec(rapi_filter_t *filtp, char *buffer, int length);

/*
 * Ours, beyond C809: the socket of the agent that later sessions use, instead of /run/sluice/agent.sock.
 * NULL: the default again.
 */
int rapi_agent(const char *socket);

#ifdef __cplusplus
}
#endif

#endif
