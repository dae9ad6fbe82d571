/* Co-reservations by libsluice, over real agents: see client/cli/tests/agents/together.rs. argv: the broker's socket, then what
 * to do; lines on standard output say how it went. Two agents have four licences each. */
#include "sluice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                         \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, sluice_together_why(t));  \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static const char *broker;
static struct sluice_when hour = {0, 0, 3600, 0, 0};

/* The network between two hosts and licences at one of two agents. */
static int make(double rate, double licences, const char *strategy, const char *name, size_t attempts, double patience,
                sluice_together **t)
{
    struct sluice_item way = {NULL, rate, "10.0.0.1", "10.0.2.2", 0};
    struct sluice_item solver[2] = {{"maui/licence/solver", licences, NULL, NULL, 0},
                                    {"glenwood/licence/solver", licences, NULL, NULL, 0}};
    struct sluice_need needs[2] = {{"network", 1, &way, NULL, NULL}, {"solver", 2, solver, NULL, NULL}};
    return sluice_together_make(broker, needs, 2, strategy, &hour, name, attempts, patience, t);
}

/* Prints the news until one of this kind. */
static void until(sluice_together *t, int what)
{
    struct sluice_news news;
    do {
        CHECK(sluice_together_next(t, 20000, &news) == SLUICE_OK);
        printf("news %d %s at %s: %s\n", news.what, news.part, news.place, news.text);
        fflush(stdout);
    } while (news.what != what);
}

static void misuse(void)
{
    sluice_together *t;
    struct sluice_news news;
    struct sluice_when never = {0, 0, 0, 0, 0};
    struct sluice_item none = {NULL, 1, NULL, NULL, 0}, way = {NULL, 1e6, "10.0.0.1", "10.0.2.2", 0};
    struct sluice_need bad = {"x", 1, &none, NULL, NULL}, two[2] = {{"a", 1, &way, NULL, NULL}, {"b", 1, &way, NULL, NULL}};
    CHECK(sluice_together_make(broker, NULL, 1, NULL, &hour, NULL, 0, 0, NULL) == SLUICE_MISUSE);
    CHECK(sluice_together_make(broker, NULL, 1, NULL, &hour, NULL, 0, 0, &t) == SLUICE_MISUSE);
    CHECK(sluice_together_next(t, 0, &news) == SLUICE_MISUSE && sluice_together_cancel(t) == SLUICE_MISUSE);
    sluice_together_close(t);
    CHECK(sluice_together_make(broker, &bad, 1, NULL, &hour, NULL, 0, 0, &t) == SLUICE_MISUSE);
    sluice_together_close(t);
    CHECK(sluice_together_make(broker, two, 2, NULL, &hour, NULL, 0, 0, &t) == SLUICE_MISUSE);
    sluice_together_close(t);
    CHECK(sluice_together_make(broker, two, 1, "again", &hour, NULL, 0, 0, &t) == SLUICE_MISUSE && strstr(sluice_together_why(t), "again"));
    sluice_together_close(t);
    CHECK(sluice_together_make(broker, two, 1, NULL, &never, NULL, 0, 0, &t) == SLUICE_MISUSE && strstr(sluice_together_why(t), "how long"));
    sluice_together_close(t);
    CHECK(sluice_together_make("https://example.org", two, 1, NULL, &hour, NULL, 0, 0, &t) == SLUICE_MISUSE);
    sluice_together_close(t);
    CHECK(sluice_together_make("/nowhere.sock", two, 1, NULL, &hour, NULL, 0, 0.3, &t) == SLUICE_AWAY && strstr(sluice_together_why(t), "/nowhere.sock"));
    sluice_together_close(t);
    CHECK(sluice_together_next(NULL, 0, NULL) == SLUICE_MISUSE && strstr(sluice_together_why(NULL), "nothing"));
    sluice_together_close(NULL);
}

/* Somebody else has three of maui's licences. */
static void refusals(void)
{
    sluice_together *t;
    char place[192], state[16], id[96];
    size_t counts[2] = {2, 2};
    struct sluice_item servers[4] = {{NULL, 1e6, "10.0.0.1", "10.0.1.2", 0}, {"maui/licence/solver", 2, NULL, NULL, 0},
                                     {NULL, 1e6, "10.0.0.1", "10.0.2.2", 0}, {"glenwood/licence/solver", 2, NULL, NULL, 0}};
    struct sluice_need server = {"server", 2, servers, counts, NULL};
    CHECK(make(2e6, 2, "another", NULL, 0, 0, &t) == SLUICE_OK);
    until(t, SLUICE_NEWS_MADE);
    CHECK(sluice_together_place(t, 1, place) == SLUICE_OK && !strcmp(place, "glenwood/licence/solver"));
    CHECK(sluice_together_place(t, 2, place) == SLUICE_MISUSE);
    CHECK(sluice_together_state(t, id, state) == SLUICE_OK && !strcmp(state, "active") && strlen(id) > 20);
    CHECK(sluice_together_cancel(t) == SLUICE_OK);
    until(t, SLUICE_NEWS_OVER);
    CHECK(sluice_together_next(t, 10, NULL) == SLUICE_NOTHING);
    sluice_together_close(t);
    CHECK(make(2e6, 5, "retry 1 0.1, another", NULL, 0, 0, &t) == SLUICE_REFUSED);
    CHECK(strstr(sluice_together_why(t), "no strategy is left for solver") && strstr(sluice_together_why(t), "4. "));
    sluice_together_close(t);
    CHECK(make(2e6, 4, "retry 100 0.1 1", NULL, 3, 0, &t) == SLUICE_REFUSED && strstr(sluice_together_why(t), "3 requests"));
    sluice_together_close(t);
    CHECK(make(2e6, 4, "retry 100 0.1 1", NULL, 0, 0.5, &t) == SLUICE_AWAY && strstr(sluice_together_why(t), "0.5 s"));
    sluice_together_close(t);
    CHECK(make(9.5e6, 1, "smaller 0.5", NULL, 0, 0, &t) == SLUICE_OK && sluice_together_cancel(t) == SLUICE_OK);
    sluice_together_close(t);
    CHECK(make(2e6, 4, "later 7200", NULL, 0, 0, &t) == SLUICE_OK);
    CHECK(sluice_together_state(t, id, state) == SLUICE_OK && !strcmp(state, "booked"));
    CHECK(sluice_together_cancel(t) == SLUICE_OK);
    sluice_together_close(t);
    /* What goes together moves together. */
    CHECK(sluice_together_make(broker, &server, 1, "another", &hour, NULL, 0, 0, &t) == SLUICE_OK);
    CHECK(sluice_together_place(t, 0, place) == SLUICE_OK && !strcmp(place, "10.0.0.1 > 10.0.2.2 + glenwood/licence/solver"));
    CHECK(sluice_together_cancel(t) == SLUICE_OK);
    sluice_together_close(t);
}

int main(int argc, char **argv)
{
    sluice_together *t;
    char id[96], state[16];
    if (argc != 3)
        return 2;
    broker = argv[1];
    if (!strcmp(argv[2], "refusals")) {
        misuse();
        refusals();
    } else if (!strcmp(argv[2], "name")) {
        /* It may be killed at any moment. */
        CHECK(make(2e6, 1, "another, retry 5", "killed", 0, 0, &t) == SLUICE_OK);
        CHECK(sluice_together_state(t, id, state) == SLUICE_OK);
        printf("made %s\n", id);
        sluice_together_close(t);
    } else {
        CHECK(make(3e6, 2, "another, retry 3", NULL, 0, 0, &t) == SLUICE_OK);
        CHECK(sluice_together_state(t, id, state) == SLUICE_OK);
        printf("made %s\n", id);
        fflush(stdout);
        until(t, SLUICE_NEWS_REPAIRED);
        until(t, SLUICE_NEWS_REPAIRED);
        CHECK(sluice_together_cancel(t) == SLUICE_OK);
        until(t, SLUICE_NEWS_OVER);
        sluice_together_close(t);
    }
    puts("all went as it should");
    return 0;
}
