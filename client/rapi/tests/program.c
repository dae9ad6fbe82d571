/*
 * A program of RAPI that a test drives: commands come by standard input, one a line, and each upcall is printed as one
 * line. `program SOCKET DESTINATION PORT [intserv]`.
 */
#include "rapi.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
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

static struct sockaddr_in destination;

static int upcall(rapi_sid_t sid, rapi_eventinfo_t event, rapi_styleid_t style, int code, int value, rapi_addr_t *node,
                  unsigned int flags, int filters, rapi_filter_t *filter, int flowspecs, rapi_flowspec_t *flowspec,
                  int adspecs, rapi_adspec_t *adspec, void *argument)
{
    static const char *names[] = {"?", "PATH", "RESV", "PATH_ERROR", "RESV_ERROR", "CONFIRM"};
    char text[256], from[INET_ADDRSTRLEN] = "-";
    CHECK(argument == &destination);
    CHECK(sid != RAPI_NULL_SID && event >= 1 && event <= 5);
    if (node != NULL)
        inet_ntop(AF_INET, &((struct sockaddr_in *)node)->sin_addr, from, sizeof from);
    printf("%s style=%d code=%d value=%d node=%s flags=%u %d/%d/%d", names[event], style, code, value, from, flags,
           filters, flowspecs, adspecs);
    for (int i = 0; i < filters; i++, filter = (rapi_filter_t *)After_RAPIObj(filter)) {
        rapi_fmt_filtspec(filter, text, sizeof text);
        printf(" %s", text);
    }
    for (int i = 0; i < flowspecs; i++, flowspec = (rapi_flowspec_t *)After_RAPIObj(flowspec)) {
        rapi_fmt_flowspec(flowspec, text, sizeof text);
        printf(" %s form=%d", text, flowspec->form);
    }
    for (int i = 0; i < adspecs; i++, adspec = (rapi_adspec_t *)After_RAPIObj(adspec)) {
        rapi_fmt_adspec(adspec, text, sizeof text);
        printf(" %s", text);
        if (adspec->form == RAPI_ADSTYPE_Simplified)
            CHECK(adspec->adspecbody_qosx.xaspec_composed_MTU >= 576);
    }
    printf("\n");
    fflush(stdout);
    return 0;
}

static rapi_tspec_t traffic(float rate)
{
    rapi_tspec_t t;
    memset(&t, 0, sizeof t);
    t.len = sizeof t;
    t.form = RAPI_TSPECTYPE_Simplified;
    t.tspecbody_qosx.spec_type = RAPI_QOS_TSPEC;
    t.tspecbody_qosx.xtspec_r = rate;
    t.tspecbody_qosx.xtspec_b = 4000;
    t.tspecbody_qosx.xtspec_p = 4 * rate;
    t.tspecbody_qosx.xtspec_m = 64;
    t.tspecbody_qosx.xtspec_M = 1500;
    return t;
}

static rapi_flowspec_t wanted(float rate)
{
    rapi_flowspec_t f;
    memset(&f, 0, sizeof f);
    f.len = sizeof f;
    f.form = RAPI_FLOWSTYPE_Simplified;
    f.specbody_qosx.spec_type = RAPI_QOS_CNTR_LOAD;
    f.specbody_qosx.xspec_r = rate;
    f.specbody_qosx.xspec_b = 4000;
    f.specbody_qosx.xspec_p = 4 * rate;
    f.specbody_qosx.xspec_m = 64;
    f.specbody_qosx.xspec_M = 1500;
    return f;
}

static rapi_filter_t from(const char *address, int port)
{
    rapi_filter_t f;
    memset(&f, 0, sizeof f);
    f.len = sizeof(rapi_hdr_t) + sizeof(rapi_filter_base_t);
    f.form = RAPI_FILTERFORM_BASE;
    f.rapi_filt4.sin_family = AF_INET;
    f.rapi_filtbase4_port = htons(port);
    CHECK(inet_pton(AF_INET, address, &f.rapi_filtbase4_addr) == 1);
    return f;
}

/* Every mistake that can be told is told, and changes nothing. */
static void misuse(rapi_sid_t sid)
{
    int error = 0;
    rapi_tspec_t tspec = traffic(1000);
    rapi_flowspec_t flowspec = wanted(1000);
    rapi_filter_t filter = from("10.0.0.1", 4000);
    struct sockaddr_in any = {.sin_family = AF_INET}, nothing = {.sin_family = AF_UNIX};
    rapi_addr_t *local = (rapi_addr_t *)&any;
    CHECK(rapi_session(NULL, 17, 0, upcall, NULL, &error) == RAPI_NULL_SID && error == RAPI_ERR_INVAL);
    CHECK(rapi_session((rapi_addr_t *)&nothing, 17, 0, upcall, NULL, &error) == RAPI_NULL_SID && error == RAPI_ERR_INVAL);
    CHECK(rapi_session((rapi_addr_t *)&destination, 4711, 0, upcall, NULL, &error) == 0 && error == RAPI_ERR_BADPROTO);
    CHECK(rapi_session((rapi_addr_t *)&destination, 50, 0, upcall, NULL, &error) == 0 && error == RAPI_ERR_GPISESS);
    CHECK(rapi_session((rapi_addr_t *)&destination, 17, RAPI_GPI_SESSION, upcall, NULL, &error) == 0);
    CHECK(rapi_sender(4711, 0, local, NULL, &tspec, NULL, NULL, 64) == RAPI_ERR_BADSID);
    CHECK(rapi_sender(sid, 0, local, NULL, NULL, NULL, NULL, 64) == RAPI_ERR_NOTSPEC);
    CHECK(rapi_sender(sid, 0, local, NULL, &tspec, NULL, NULL, 0) == RAPI_ERR_INVAL);
    CHECK(rapi_sender(sid, 0, local, NULL, &tspec, NULL, NULL, 256) == RAPI_ERR_INVAL);
    CHECK(rapi_sender(sid, 0, (rapi_addr_t *)&nothing, NULL, &tspec, NULL, NULL, 64) == RAPI_ERR_INVAL);
    CHECK(rapi_sender(sid, 0, local, NULL, (rapi_tspec_t *)&flowspec, NULL, NULL, 64) == RAPI_ERR_OBJTYPE);
    tspec.len = 12;
    CHECK(rapi_sender(sid, 0, local, NULL, &tspec, NULL, NULL, 64) == RAPI_ERR_OBJLEN);
    tspec.len = 1u << 30;
    CHECK(rapi_sender(sid, 0, local, NULL, &tspec, NULL, NULL, 64) == RAPI_ERR_OBJLEN);
    tspec = traffic(-1);
    CHECK(rapi_sender(sid, 0, local, NULL, &tspec, NULL, NULL, 64) == RAPI_ERR_INVAL);
    tspec = traffic(1000);
    tspec.form = RAPI_TSPECTYPE_Intserv;
    CHECK(rapi_sender(sid, 0, local, NULL, &tspec, NULL, NULL, 64) == RAPI_ERR_INTSERV);
    CHECK(rapi_reserve(sid, 0, NULL, 7, NULL, NULL, 1, &filter, 1, &flowspec) == RAPI_ERR_BADSTYLE);
    CHECK(rapi_reserve(sid, 0, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, 0, NULL, 1, &flowspec) == RAPI_ERR_N_FFS);
    CHECK(rapi_reserve(sid, 0, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, 1, NULL, 1, &flowspec) == RAPI_ERR_INVAL);
    CHECK(rapi_reserve(sid, 0, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, -1, &filter, 1, &flowspec) == RAPI_ERR_INVAL);
    CHECK(rapi_reserve(sid, 0, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, 5000, &filter, 5000, &flowspec) == RAPI_ERR_OVERFLOW);
    filter.form = RAPI_FILTERFORM_GPI;
    CHECK(rapi_reserve(sid, 0, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, 1, &filter, 1, &flowspec) == RAPI_ERR_GPISESS);
    CHECK(rapi_reserve(4711, 0, NULL, RAPI_RSTYLE_WILDCARD, NULL, NULL, 0, NULL, 1, &flowspec) == RAPI_ERR_BADSID);
    CHECK(rapi_release(4711) == RAPI_ERR_BADSID && rapi_getfd(4711) == -1);
    CHECK(rapi_strerror(RAPI_ERR_BADSID, 0) != NULL && rapi_strerror(4711, 0) == NULL);
    CHECK(rapi_version() == RAPI_VERSION);
    CHECK(sizeof(rapi_flowspec_t) == 40 && sizeof(rapi_tspec_t) == 32 && sizeof(rapi_adspec_t) == 76);
    char cut[4] = "xyz";
    rapi_fmt_flowspec(&flowspec, cut, sizeof cut);
    CHECK(strlen(cut) == 3 && cut[0] == '[');
    rapi_fmt_flowspec(NULL, cut, sizeof cut);
    rapi_fmt_filtspec(&filter, NULL, 100);
    printf("misuse is told\n");
}

/* Opens and releases sessions while the main thread dispatches. */
static void *from_another_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++) {
        int error = 0;
        rapi_sid_t sid = rapi_session((rapi_addr_t *)&destination, 17, 0, upcall, &destination, &error);
        CHECK(sid != RAPI_NULL_SID && error == 0);
        CHECK(rapi_dispatch() == 0);
        CHECK(rapi_release(sid) == 0);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t some[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&some[i], NULL, from_another_thread, NULL) == 0);
    for (int i = 0; i < 100; i++)
        rapi_dispatch();
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(some[i], NULL) == 0);
    printf("threads are done\n");
}

/* Opens sessions until no more are let, and releases them: afterwards there is room again. */
static void many(void)
{
    static rapi_sid_t sids[2000];
    struct sockaddr_in other = destination;
    int count = 0, error = 0, code = 0;
    for (; count < 2000; count++) {
        other.sin_port = htons(10000 + count);
        sids[count] = rapi_session((rapi_addr_t *)&other, 17, 0, upcall, &destination, &code);
        if (sids[count] == RAPI_NULL_SID)
            break;
    }
    for (int i = 0; i < count; i++)
        CHECK(rapi_release(sids[i]) == 0);
    /* The agent sees the ends in its next turn. */
    for (int i = 0; i < 500 && sids[0] != RAPI_NULL_SID; i++) {
        sids[1] = rapi_session((rapi_addr_t *)&other, 17, 0, upcall, &destination, &error);
        if (sids[1] != RAPI_NULL_SID)
            break;
        usleep(10000);
    }
    CHECK(sids[1] != RAPI_NULL_SID && rapi_release(sids[1]) == 0);
    printf("many: %d, then %s\n", count, rapi_strerror(code, 0));
}

static void command(rapi_sid_t sid, char *line)
{
    char word[32] = "", address[64] = "";
    float rate = 0;
    int port = 0, code = 0;
    if (sscanf(line, "send %63s %d %f", address, &port, &rate) == 3) {
        rapi_filter_t filter = from(address, port);
        rapi_tspec_t tspec = traffic(rate);
        code = rapi_sender(sid, 0, (rapi_addr_t *)&filter.rapi_filt4, NULL, &tspec, NULL, NULL, 63);
    } else if (sscanf(line, "fixed %63s %d %f", address, &port, &rate) == 3) {
        rapi_filter_t filter = from(address, port);
        rapi_flowspec_t flowspec = wanted(rate);
        code = rapi_reserve(sid, RAPI_REQ_CONFIRM, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, 1, &filter, 1, &flowspec);
    } else if (sscanf(line, "wildcard %f", &rate) == 1) {
        rapi_flowspec_t flowspec = wanted(rate);
        code = rapi_reserve(sid, RAPI_REQ_CONFIRM, NULL, RAPI_RSTYLE_WILDCARD, NULL, NULL, 0, NULL, 1, &flowspec);
    } else if (sscanf(line, "%31s", word) != 1) {
        return;
    } else if (strcmp(word, "silent") == 0) {
        code = rapi_sender(sid, 0, NULL, NULL, NULL, NULL, NULL, 0);
    } else if (strcmp(word, "unreserve") == 0) {
        code = rapi_reserve(sid, 0, NULL, RAPI_RSTYLE_FIXED, NULL, NULL, 0, NULL, 0, NULL);
    } else if (strcmp(word, "misuse") == 0) {
        misuse(sid);
    } else if (strcmp(word, "threads") == 0) {
        threads();
    } else if (strcmp(word, "many") == 0) {
        many();
    } else if (strcmp(word, "fork") == 0) {
        if (fork() == 0) { /* the child outlives its parent, and has no session */
            CHECK(rapi_getfd(sid) == -1 && rapi_release(sid) == RAPI_ERR_BADSID && rapi_dispatch() == 0);
            sleep(20);
            _exit(0);
        }
    }
    printf("did %s: %d %s\n", strtok(line, " \n"), code, rapi_strerror(code, 0));
    fflush(stdout);
}

int main(int count, char **given)
{
    int error = -1;
    setvbuf(stdin, NULL, _IONBF, 0);
    CHECK(count >= 4 && rapi_agent(given[1]) == 0);
    destination.sin_family = AF_INET;
    destination.sin_port = htons(atoi(given[3]));
    CHECK(inet_pton(AF_INET, given[2], &destination.sin_addr) == 1);
    rapi_sid_t sid = rapi_session((rapi_addr_t *)&destination, 0, count > 4 ? RAPI_USE_INTSERV : 0, upcall, &destination,
                                  &error);
    printf("session: %d\n", error);
    fflush(stdout);
    if (sid == RAPI_NULL_SID)
        return 1;
    struct pollfd both[2] = {{.fd = 0, .events = POLLIN}, {.fd = rapi_getfd(sid), .events = POLLIN}};
    CHECK(both[1].fd >= 0);
    for (;;) {
        char line[256];
        CHECK(poll(both, 2, -1) > 0);
        if (both[1].revents != 0) {
            int result = rapi_dispatch();
            CHECK(result == 0 || result == RAPI_ERR_NORSVP);
            if (result == RAPI_ERR_NORSVP) {
                printf("the agent is away\n");
                fflush(stdout);
            }
            CHECK(rapi_getfd(sid) == both[1].fd);
        }
        if (both[0].revents != 0) {
            if (fgets(line, sizeof line, stdin) == NULL)
                return 0;
            command(sid, line);
        }
    }
}
