/*
 * A video tool in the manner of vic: several senders and receivers of one group, each with a reservation by SCRAPI.
 *
 *     cc video_tool.c $(pkg-config --cflags --libs libscrapi) -o video_tool
 *     ./video_tool send 239.1.1.1 5004 10.0.0.1 250000      bytes/s; "rate N" on standard input changes it
 *     ./video_tool receive 239.1.1.1 5004
 *
 * The sender sends packets of 1,000 bytes at its rate. The receiver counts them and reserves for every sender that
 * announces itself. Both show the colour of their reservation, and errors in words.
 */
#include <scrapi.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *colour(scrapi_status status)
{
    return status == scrapi_status_green ? "reserved" : status == scrapi_status_yellow ? "not yet reserved" : "REFUSED";
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int count, char **given)
{
    struct sockaddr_storage group, source;
    const struct sockaddr *to = SOCKADDR(&group), *from = NULL;
    char packet[1000] = {0}, line[64];
    double rate = 0, next = now(), report = now() + 1;
    long packets = 0;
    int sends = count == 6 && strcmp(given[1], "send") == 0, input = 1;

    if (!sends && !(count == 4 && strcmp(given[1], "receive") == 0)) {
        fprintf(stderr, "usage: %s send GROUP PORT SOURCE BYTES_PER_SECOND | receive GROUP PORT\n", given[0]);
        return 2;
    }
    if (!scrapi_sockaddr_parse(SOCKADDR(&group), given[2], atoi(given[3])) ||
        (sends && !scrapi_sockaddr_parse(SOCKADDR(&source), given[4], atoi(given[3])))) {
        fprintf(stderr, "%s: this is no address\n", given[2]);
        return 2;
    }
    if (getenv("SLUICE_SOCKET") != NULL)
        scrapi_agent(getenv("SLUICE_SOCKET"));
    int udp = socket(to->sa_family, SOCK_DGRAM, 0), one = 1;
    if (udp < 0)
        return fail("socket");
    setsockopt(udp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (sends) {
        from = SOCKADDR(&source);
        rate = atof(given[5]);
        if (bind(udp, from, scrapi_sockaddr_length(from)) != 0)
            return fail("bind");
        scrapi_sender(to, IPPROTO_UDP, from, rate, 0);
    } else {
        if (bind(udp, to, scrapi_sockaddr_length(to)) != 0)
            return fail("bind");
        if (scrapi_sockaddr_multicast(to) && to->sa_family == AF_INET) {
            struct ip_mreqn join = {.imr_multiaddr = ((struct sockaddr_in *)&group)->sin_addr};
            if (setsockopt(udp, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) != 0)
                return fail("joining the group");
        }
        scrapi_receiver(to, IPPROTO_UDP, NULL, 1, scrapi_service_cl, scrapi_style_distinct, 0);
    }
    for (;;) {
        fd_set ready;
        struct timeval patience = {0, 1000};
        FD_ZERO(&ready);
        if (input)
            FD_SET(0, &ready);
        if (!sends)
            FD_SET(udp, &ready);
        scrapi_poll_list(&ready);
        if (select(FD_SETSIZE, &ready, NULL, NULL, &patience) < 0)
            return fail("select");
        scrapi_dispatch();
        if (!sends && FD_ISSET(udp, &ready) && recv(udp, packet, sizeof packet, 0) > 0)
            packets++;
        for (; sends && next <= now(); next += sizeof packet / rate)
            packets += sendto(udp, packet, sizeof packet, 0, to, scrapi_sockaddr_length(to)) > 0;
        if (input && FD_ISSET(0, &ready)) {
            if (fgets(line, sizeof line, stdin) == NULL)
                input = 0;
            else if (sends && strncmp(line, "rate ", 5) == 0 && atof(line + 5) > 0)
                scrapi_sender(to, IPPROTO_UDP, from, rate = atof(line + 5), 0);
        }
        if (now() >= report) {
            int error = scrapi_errno(to, IPPROTO_UDP, from);
            printf("%ld packets/s, %s%s%s\n", packets, colour(scrapi_get_status(to, IPPROTO_UDP, from)),
                   error ? ": " : "", error ? scrapi_errlist(error) : "");
            fflush(stdout);
            packets = 0;
            report += 1;
        }
    }
}
