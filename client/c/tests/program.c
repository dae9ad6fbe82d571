/* A C program that does everything that sluice.h has against an agent that says what c.rs makes it say. */
#include "check.h"

int main(int argc, char **argv)
{
    sluice *s;
    struct sluice_reservation r;
    struct sluice_event event;
    struct sluice_part parts[2] = {{"net/eth1", 6e6, 2e6, 0}, {"cpu", 0.5, 0, 0}};
    struct sluice_when when = {1795269600, 0, 3600, 30, 0};
    struct sluice_flow flow = {"10.0.0.1", "10.0.2.2", 17, 4000, 5004};
    struct sluice_flow wrong = {"10.0.0.256", NULL, 0, 0, 0};
    double free_ = 0;
    uint64_t number = 0;
    uint32_t granted[2] = {0, 0};

    (void)argc;
    CHECK(sluice_open("/nowhere.sock", &s) == SLUICE_AWAY && strstr(sluice_why(s), "sluice agent"));
    CHECK(sluice_cancel(s, "x") == SLUICE_AWAY);
    sluice_close(s);
    CHECK(sluice_open(argv[1], &s) == SLUICE_OK);

    CHECK(sluice_enquire(s, "net/eth1", &when, &free_) == SLUICE_OK && free_ == 1e7);
    CHECK(sluice_reserve(s, parts, 2, &when, "film", "key-1", &r) == SLUICE_OK);
    CHECK(!strcmp(r.handle, "h1") && !strcmp(r.state, "held") && r.parts == 2 && r.now[0] == 6e6 && r.now[1] == 0.5);
    CHECK(sluice_commit(s, r.handle, &r) == SLUICE_OK && !strcmp(r.state, "active"));
    CHECK(sluice_bind_flow(s, r.handle, 0, &flow) == SLUICE_OK);
    CHECK(sluice_bind_pid(s, r.handle, 1, 42) == SLUICE_OK);
    CHECK(sluice_bind_pid(s, r.handle, 1, 0) == SLUICE_OK);
    CHECK(sluice_modify(s, r.handle, 0, 8e6) == SLUICE_OK);
    CHECK(sluice_show(s, r.handle, &r) == SLUICE_OK && r.now[0] == 8e6);
    CHECK(sluice_extend(s, r.handle, 0) == SLUICE_MISUSE && strstr(sluice_why(s), "SLUICE_FOREVER"));
    CHECK(sluice_extend(s, r.handle, SLUICE_FOREVER) == SLUICE_OK);

    CHECK(sluice_modify(s, r.handle, 0, 9e9) == SLUICE_REFUSED && strstr(sluice_why(s), "no room"));
    CHECK(sluice_modify(s, r.handle, 7, 1) == SLUICE_MISUSE && strstr(sluice_why(s), "no part 7"));
    CHECK(sluice_modify(s, r.handle, 0, -1) == SLUICE_MISUSE);
    CHECK(sluice_reserve(s, parts, 0, NULL, NULL, NULL, &r) == SLUICE_MISUSE);
    CHECK(sluice_reserve(s, NULL, 1, NULL, NULL, NULL, &r) == SLUICE_MISUSE);
    CHECK(sluice_reserve(s, parts, 17, NULL, NULL, NULL, &r) == SLUICE_MISUSE);
    CHECK(sluice_bind_flow(s, "h1", 0, &wrong) == SLUICE_MISUSE && strstr(sluice_why(s), "10.0.0.256"));
    CHECK(sluice_cancel(s, NULL) == SLUICE_MISUSE && sluice_cancel(s, "\xff") == SLUICE_MISUSE);
    CHECK(sluice_cancel(NULL, "h1") == SLUICE_MISUSE && sluice_open(argv[1], NULL) == SLUICE_MISUSE);
    CHECK(strstr(sluice_why(NULL), "no connection"));
    sluice_close(NULL);

    CHECK(sluice_follow(s, 0) == SLUICE_OK);
    CHECK(sluice_next_event(s, 5000, &event) == SLUICE_OK && event.seq == 1 && !strcmp(event.event, "created") && event.part == -1);
    CHECK(sluice_next_event(s, 5000, &event) == SLUICE_OK && event.seq == 2 && !strcmp(event.event, "share"));
    CHECK(!strcmp(event.handle, "h1") && event.part == 0 && event.now == 5e6);
    CHECK(sluice_next_event(s, 10, &event) == SLUICE_NOTHING);
    CHECK(sluice_cancel(s, "h1") == SLUICE_OK);

    CHECK(sluice_boomerang_reserve(s, "10.0.2.2", &flow, 4000000, 500000, &number, granted) == SLUICE_OK);
    CHECK(number == 9 && granted[0] == 4000000 && granted[1] == 500000);
    CHECK(sluice_boomerang_release(s, number) == SLUICE_OK);
    CHECK(sluice_boomerang_reserve(s, "10.0.2.2", &flow, 5000000, 0, NULL, NULL) == SLUICE_REFUSED);
    CHECK(strstr(sluice_why(s), "1000000 bit/s forward"));
    CHECK(sluice_boomerang_reserve(s, "nowhere", &flow, 1, 0, NULL, NULL) == SLUICE_MISUSE);
    sluice_close(s);
    puts("everything answered as it should");
    return 0;
}
