/*
 * A renderer and the network from it to a desk, as one reservation (libsluice): the distance visualization of GARA, section
 * 2.1. If one machine is taken it is another; if there is less room, a smaller picture; if one breaks, it is repaired.
 *
 *     cc together.c $(pkg-config --cflags --libs libsluice) -o together
 *     ./together 10.0.0.1 render1=10.0.1.2 render2=10.0.2.2          on the testbed of examples/together.toml
 *
 * SLUICE_BROKER names the broker: a Unix socket, or http://127.0.0.1:PORT.
 */
#include "sluice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 8

int main(int count, char **given)
{
    struct sluice_item items[2 * MOST];
    size_t counts[MOST];
    char resources[MOST][128];
    struct sluice_need renderer = {"renderer", 0, items, counts, NULL};
    struct sluice_when when = {0, 0, 5, 0, 0}; /* for five seconds */
    struct sluice_news news;
    sluice_together *t;

    if (count < 3 || count - 2 > MOST) {
        fprintf(stderr, "usage: %s DESK AGENT=ADDRESS...\n", given[0]);
        return 2;
    }
    for (int i = 2; i < count; i++) {
        char *address = strchr(given[i], '=');
        if (address == NULL)
            return 2;
        *address++ = 0;
        snprintf(resources[i - 2], sizeof resources[0], "%s/licence/renderer", given[i]);
        /* The way from there to the desk, and a licence there: these go together. */
        items[2 * (i - 2)] = (struct sluice_item){NULL, 6e6, address, given[1], 0};
        items[2 * (i - 2) + 1] = (struct sluice_item){resources[i - 2], 1, NULL, NULL, 0};
        counts[renderer.alternatives++] = 2;
    }
    if (sluice_together_make(getenv("SLUICE_BROKER"), &renderer, 1, "retry 1 0.2, another, smaller 0.5", &when, "visualization", 0,
                             0, &t) != SLUICE_OK) {
        fprintf(stderr, "%s\n", sluice_together_why(t));
        return 1;
    }
    do {
        if (sluice_together_next(t, 1000, &news) == SLUICE_OK) {
            printf("%s\n", news.text);
            fflush(stdout);
        }
    } while (news.what != SLUICE_NEWS_OVER && news.what != SLUICE_NEWS_LOST);
    sluice_together_close(t);
    return news.what == SLUICE_NEWS_OVER ? 0 : 1;
}
