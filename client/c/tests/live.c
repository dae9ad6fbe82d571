/* Every call of the book in sluice.h, against a real agent: see live.rs. argv: socket, pid of a process to bind. */
#include "check.h"

/* Waits for an event of a reservation. */
static int heard(sluice *s, const char *handle, const char *name, struct sluice_event *event)
{
    while (sluice_next_event(s, 10000, event) == SLUICE_OK)
        if (!strcmp(event->handle, handle) && !strcmp(event->event, name))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    sluice *s;
    struct sluice_reservation r, again, held;
    struct sluice_event event;
    struct sluice_part parts[3] = {{"net/d0", 6e6, 2e6, 0}, {"cpu", 0.1, 0, 0}, {"licence/solver", 2, 0, 0}};
    struct sluice_part rest = {"net/d0", 3e6, 0, 1}, over = {"licence/solver", 5, 0, 0}, one = {"licence/solver", 1, 0, 0};
    struct sluice_when hour = {0, 0, 3600, 0, 0}, hold = {0, 0, 3600, 30, 0}, later = {0, 0, 60, 0, 1}, ever = {0, SLUICE_FOREVER, 0, 0, 0};
    struct sluice_flow flow = {"10.9.0.1", "10.9.0.2", 17, 4000, 5004};
    double most = 0;

    CHECK(argc == 3);
    CHECK(sluice_open("tls://nowhere.invalid:4711", &s) == SLUICE_MISUSE && strstr(sluice_why(s), "no TLS"));
    sluice_close(s);
    CHECK(sluice_open(argv[1], &s) == SLUICE_OK);
    CHECK(sluice_enquire(s, "net/d0", &hour, &most) == SLUICE_OK && most > 6e6 && most < 1e7);
    CHECK(sluice_follow(s, UINT64_MAX) == SLUICE_OK);
    CHECK(sluice_reserve(s, parts, 3, &hour, "film", "key-1", &r) == SLUICE_OK);
    CHECK(!strcmp(r.state, "active") && r.parts == 3 && r.now[0] == 6e6 && r.now[1] == 0.1 && r.now[2] == 2);
    CHECK(sluice_reserve(s, parts, 3, &hour, "film", "key-1", &again) == SLUICE_OK && !strcmp(r.handle, again.handle));
    CHECK(heard(s, r.handle, "created", &event) && event.part == -1);
    CHECK(sluice_bind_flow(s, r.handle, 0, &flow) == SLUICE_OK);
    CHECK(sluice_bind_pid(s, r.handle, 1, (uint32_t)atoi(argv[2])) == SLUICE_OK);
    CHECK(heard(s, r.handle, "bound", &event));
    CHECK(sluice_bind_pid(s, r.handle, 1, 0) == SLUICE_OK && sluice_bind_flow(s, r.handle, 0, NULL) == SLUICE_OK);
    CHECK(sluice_modify(s, r.handle, 0, 8e6) == SLUICE_OK);
    CHECK(sluice_modify(s, r.handle, 0, 9e9) == SLUICE_REFUSED && strstr(sluice_why(s), "net/d0"));
    CHECK(sluice_modify(s, r.handle, 7, 1) == SLUICE_MISUSE);
    CHECK(sluice_extend(s, r.handle, 0) == SLUICE_MISUSE && strstr(sluice_why(s), "SLUICE_FOREVER"));
    CHECK(sluice_extend(s, r.handle, SLUICE_FOREVER) == SLUICE_OK);
    CHECK(sluice_show(s, r.handle, &again) == SLUICE_OK && again.now[0] == 8e6 && again.now[2] == 2);
    CHECK(sluice_reserve(s, &one, 1, NULL, NULL, NULL, &held) == SLUICE_MISUSE && strstr(sluice_why(s), "forever"));
    CHECK(sluice_reserve(s, &over, 1, &ever, NULL, NULL, &held) == SLUICE_REFUSED && strstr(sluice_why(s), "licence/solver"));
    CHECK(sluice_reserve(s, &one, 1, &hold, NULL, NULL, &held) == SLUICE_OK && !strcmp(held.state, "held"));
    CHECK(sluice_commit(s, held.handle, &held) == SLUICE_OK && !strcmp(held.state, "active"));
    CHECK(sluice_cancel(s, held.handle) == SLUICE_OK && sluice_cancel(s, "nothing") != SLUICE_OK);
    CHECK(sluice_reserve(s, &one, 1, &later, NULL, NULL, &held) == SLUICE_OK && sluice_cancel(s, held.handle) == SLUICE_OK);
    CHECK(sluice_reserve(s, &rest, 1, &hour, "bulk", NULL, &held) == SLUICE_OK);
    CHECK(heard(s, held.handle, "share", &event) && event.part == 0 && event.now > 0 && event.now < 3e6);
    CHECK(sluice_cancel(s, held.handle) == SLUICE_OK && sluice_cancel(s, r.handle) == SLUICE_OK);
    CHECK(sluice_show(s, r.handle, &again) == SLUICE_OK && !strcmp(again.state, "cancelled"));
    CHECK(sluice_show(s, "nothing", &again) != SLUICE_OK);
    CHECK(heard(s, r.handle, "cancelled", &event));
    CHECK(sluice_next_event(s, 10, &event) == SLUICE_NOTHING);
    /* Another connection hears it all from the beginning. */
    sluice_close(s);
    CHECK(sluice_open(argv[1], &s) == SLUICE_OK && sluice_follow(s, 0) == SLUICE_OK);
    CHECK(heard(s, r.handle, "created", &event) && heard(s, r.handle, "cancelled", &event));
    sluice_close(s);
    puts("everything answered as it should");
    return 0;
}
