/* What the C programs of the tests have in common: the first call that is not as it must be ends them, and says why. */
#ifndef CHECK_H
#define CHECK_H

#include "sluice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                     \
    do {                                                                                \
        if (!(what)) {                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, sluice_why(s));       \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#endif
