/* Boomerang from C by a real agent: boomerang SOCKET FAR_END. Reserves, waits for the end of its input, gives back. Run by
 * client/cli/tests/agents/forms.rs. */
#include "check.h"

int main(int argc, char **argv)
{
    sluice *s;
    struct sluice_flow flow = {NULL, NULL, 17, 4000, 5004};
    struct sluice_flow other = {NULL, NULL, 17, 4001, 5004};
    struct sluice_flow sites = {"10.0.0.0/24", "10.0.3.0/24", 0, 0, 0};
    struct sluice_flow improper = {"10.0.0.1/24", "10.0.3.0/24", 0, 0, 0};
    uint64_t all = 0;
    uint64_t number = 0;
    uint32_t granted[2] = {0, 0};

    if (argc != 3)
        return 2;
    CHECK(sluice_open(argv[1], &s) == SLUICE_OK);
    CHECK(sluice_boomerang_reserve(s, argv[2], &flow, 3000000, 500000, &number, granted) == SLUICE_OK);
    CHECK(number > 0 && granted[0] == 3000000 && granted[1] == 500000);
    while (getchar() != EOF)
        ;
    /* More than the link in the middle has: refused with what there is, and the first one stays. */
    CHECK(sluice_boomerang_reserve(s, argv[2], &other, 20000000, 0, NULL, NULL) == SLUICE_REFUSED);
    CHECK(strstr(sluice_why(s), "bit/s forward"));
    /* All that goes between two sites. */
    CHECK(sluice_boomerang_reserve(s, argv[2], &sites, 1000000, 500000, &all, granted) == SLUICE_OK);
    CHECK(all > number && granted[0] == 1000000 && granted[1] == 500000);
    CHECK(sluice_boomerang_reserve(s, argv[2], &improper, 1000000, 0, NULL, NULL) == SLUICE_MISUSE);
    CHECK(strstr(sluice_why(s), "first 24 bits"));
    CHECK(sluice_boomerang_release(s, all) == SLUICE_OK);
    CHECK(sluice_boomerang_release(s, number) == SLUICE_OK);
    CHECK(sluice_boomerang_release(s, number + 99) == SLUICE_REFUSED);
    sluice_close(s);
    puts("reserved, refused and given back");
    return 0;
}
