/*
 * A file server that reserves for each request, by RAPI.
 *
 *     cc file_server.c $(pkg-config --cflags --libs librapi) -o file_server
 *     ./file_server 10.0.0.1 8080 FILE BYTES_PER_SECOND
 *
 * For each TCP connection it announces a sender with the connection's own addresses and ports, waits at most a second
 * until the receiver's side has reserved (a program there, or its agent as a proxy), then sends the file, and says
 * whether it went with a reservation or without. One connection at a time: it is an example.
 */
#include <rapi.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* The result of a request's reservation: 0 not yet, 1 reserved, -1 refused. */
static int heard(rapi_sid_t sid, rapi_eventinfo_t event, rapi_styleid_t style, int code, int value, rapi_addr_t *node,
                 unsigned int flags, int filters, rapi_filter_t *filter, int flowspecs, rapi_flowspec_t *flowspec,
                 int adspecs, rapi_adspec_t *adspec, void *result)
{
    (void)sid, (void)style, (void)value, (void)flags, (void)filters, (void)filter, (void)flowspec, (void)adspecs;
    (void)adspec;
    if (event == RAPI_RESV_EVENT)
        *(int *)result = flowspecs > 0 ? 1 : 0;
    if (event == RAPI_PATH_ERROR) {
        char from[INET_ADDRSTRLEN] = "?";
        if (node != NULL && node->sa_family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)node)->sin_addr, from, sizeof from);
        fprintf(stderr, "refused by %s: error %d\n", from, code);
        *(int *)result = -1;
    }
    return 0;
}

static rapi_sid_t reserve(int connection, float rate, int *result)
{
    struct sockaddr_in own, peer;
    socklen_t length = sizeof own;
    rapi_tspec_t tspec;
    int error = 0;
    memset(&tspec, 0, sizeof tspec);
    tspec.len = sizeof tspec;
    tspec.form = RAPI_TSPECTYPE_Simplified;
    tspec.tspecbody_qosx.spec_type = RAPI_QOS_TSPEC;
    tspec.tspecbody_qosx.xtspec_r = rate;
    tspec.tspecbody_qosx.xtspec_b = rate / 10 > 64000 ? rate / 10 : 64000;
    tspec.tspecbody_qosx.xtspec_p = 4 * rate;
    tspec.tspecbody_qosx.xtspec_m = 64;
    tspec.tspecbody_qosx.xtspec_M = 1500;
    if (getsockname(connection, (struct sockaddr *)&own, &length) != 0 ||
        getpeername(connection, (struct sockaddr *)&peer, &length) != 0)
        return RAPI_NULL_SID;
    rapi_sid_t sid = rapi_session((rapi_addr_t *)&peer, IPPROTO_TCP, 0, heard, result, &error);
    if (sid != RAPI_NULL_SID)
        error = rapi_sender(sid, 0, (rapi_addr_t *)&own, NULL, &tspec, NULL, NULL, 63);
    if (error != 0)
        fprintf(stderr, "no reservation: %s\n", rapi_strerror(error, 0));
    struct pollfd ready = {.fd = rapi_getfd(sid), .events = POLLIN};
    for (int tries = 0; error == 0 && *result == 0 && tries < 10; tries++) {
        poll(&ready, 1, 100);
        rapi_dispatch();
    }
    return sid;
}

int main(int count, char **given)
{
    struct sockaddr_in place = {.sin_family = AF_INET};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (count != 5 || inet_pton(AF_INET, given[1], &place.sin_addr) != 1) {
        fprintf(stderr, "usage: %s ADDRESS PORT FILE BYTES_PER_SECOND\n", given[0]);
        return 2;
    }
    rapi_agent(getenv("SLUICE_SOCKET"));
    place.sin_port = htons(atoi(given[2]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&place, sizeof place) != 0 || listen(listener, 16) != 0) {
        perror(given[1]);
        return 1;
    }
    for (;;) {
        struct stat about;
        int result = 0, connection = accept(listener, NULL, NULL), file = open(given[3], O_RDONLY);
        if (connection < 0 || file < 0 || fstat(file, &about) != 0) {
            perror(given[3]);
            return 1;
        }
        rapi_sid_t sid = reserve(connection, atof(given[4]), &result);
        for (off_t sent = 0; sent < about.st_size;)
            if (sendfile(connection, file, &sent, about.st_size - sent) <= 0)
                break;
        printf("sent %s %s a reservation\n", given[3], result == 1 ? "with" : "without");
        fflush(stdout);
        close(file);
        close(connection);
        if (sid != RAPI_NULL_SID)
            rapi_release(sid);
    }
}
