/*
 * A program of SCRAPI that a test drives: `program SOCKET send|receive DESTINATION PORT SOURCE [BANDWIDTH]`. It prints each
 * change of the flow's status; commands come by standard input, one a line.
 */
#include "scrapi.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                   \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("FAILED line %d: %s\n", __LINE__, #condition);          \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static struct sockaddr_storage destination, source;
static const struct sockaddr *to = SOCKADDR(&destination), *from = SOCKADDR(&source);

static const char *status(void)
{
    static const char *names[] = {"red", "yellow", "green"};
    return names[scrapi_get_status(to, IPPROTO_UDP, from)];
}

/* Every mistake that can be told is told. */
static void misuse(void)
{
    struct sockaddr_storage other;
    FILE *nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != NULL);
    scrapi_stderr(nowhere);
    CHECK(scrapi_sender(NULL, IPPROTO_UDP, from, 1000, 0) == 0 && scrapi_errno(NULL, 0, NULL) == 257);
    CHECK(scrapi_sender(to, 0, from, 1000, 0) == 0 && scrapi_errno(NULL, 0, NULL) == 271);
    CHECK(scrapi_sender(to, IPPROTO_UDP, NULL, -1, 0) == 0 && scrapi_errno(to, IPPROTO_UDP, NULL) == 257);
    CHECK(scrapi_receiver(to, IPPROTO_UDP, from, 1, (scrapi_service)7, scrapi_style_shared, 0) == 0);
    CHECK(scrapi_receiver(to, IPPROTO_UDP, from, 1, scrapi_service_cl, (scrapi_style)7, 0) == 0);
    CHECK(scrapi_errno(NULL, 0, NULL) == 261);
    CHECK(scrapi_sockaddr_parse(SOCKADDR(&other), "10.9.9.9", 1) == 1);
    CHECK(scrapi_close(SOCKADDR(&other), IPPROTO_UDP, NULL) == 0);
    CHECK(scrapi_get_status(SOCKADDR(&other), IPPROTO_UDP, NULL) == scrapi_status_red);
    CHECK(strcmp(scrapi_sockaddr_print(SOCKADDR(&other)), "10.9.9.9:1") == 0);
    CHECK(!scrapi_sockaddr_multicast(SOCKADDR(&other)));
    CHECK(scrapi_sockaddr_parse(SOCKADDR(&other), "ff02::1", 7) == 1 && scrapi_sockaddr_multicast(SOCKADDR(&other)));
    CHECK(scrapi_sockaddr_length(SOCKADDR(&other)) == sizeof(struct sockaddr_in6));
    scrapi_sockaddr_set_port(SOCKADDR(&other), 9);
    CHECK(scrapi_sockaddr_get_port(SOCKADDR(&other)) == 9);
    CHECK(memcmp(scrapi_sockaddr_get_addr(SOCKADDR(&other)), "\xff\x02", 2) == 0);
    scrapi_sockaddr_any(SOCKADDR(&other), AF_INET);
    CHECK(strcmp(scrapi_sockaddr_print(SOCKADDR(&other)), "0.0.0.0:0") == 0);
    scrapi_sockaddr_set_addr(SOCKADDR(&other), "\x0a\x01\x02\x03");
    CHECK(strcmp(scrapi_sockaddr_print(SOCKADDR(&other)), "10.1.2.3:0") == 0);
    CHECK(scrapi_errlist(1) != NULL && scrapi_errlist(4711) != NULL);
    scrapi_perror(to, IPPROTO_UDP, from, "test");
    scrapi_stderr(NULL);
    fclose(nowhere);
}

int main(int count, char **given)
{
    char line[128], last[64] = "", now[64];
    int done;
    CHECK(count >= 6);
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    scrapi_agent(given[1]);
    CHECK(scrapi_sockaddr_parse(SOCKADDR(&destination), given[3], atoi(given[4])));
    CHECK(scrapi_sockaddr_parse(SOCKADDR(&source), given[5], atoi(given[4])));
    if (strcmp(given[2], "send") == 0)
        done = scrapi_sender(to, IPPROTO_UDP, from, atof(given[6]), 20000);
    else
        done = scrapi_receiver(to, IPPROTO_UDP, from, 1, scrapi_service_cl, scrapi_style_distinct, 0);
    printf("began: %d status %s errno %d\n", done, status(), scrapi_errno(to, IPPROTO_UDP, from));
    for (;;) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(0, &set);
        scrapi_poll_list(&set);
        CHECK(select(FD_SETSIZE, &set, NULL, NULL, NULL) > 0);
        scrapi_dispatch();
        snprintf(now, sizeof now, "status %s errno %d", status(), scrapi_errno(to, IPPROTO_UDP, from));
        if (strcmp(now, last) != 0)
            printf("%s\n", strcpy(last, now));
        if (!FD_ISSET(0, &set))
            continue;
        if (fgets(line, sizeof line, stdin) == NULL)
            return 0;
        done = 1;
        if (strncmp(line, "rate ", 5) == 0)
            done = scrapi_sender(to, IPPROTO_UDP, from, atof(line + 5), 0);
        else if (strncmp(line, "close", 5) == 0)
            done = scrapi_close(to, IPPROTO_UDP, from);
        else if (strncmp(line, "misuse", 6) == 0)
            misuse();
        printf("did %s: %d\n", strtok(line, " \n"), done);
    }
}
