/* A program that is linked with one of the installed libraries, and asks it something: argv says which answer is right. */
#include <stdio.h>
#include <string.h>

#if defined RAPI
#include <rapi.h>
#include <netinet/in.h>

static int asked(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = 5004};
    int error = 0;
    rapi_agent("/nowhere.sock");
    to.sin_addr.s_addr = 0x0100007f;
    rapi_sid_t sid = rapi_session((rapi_addr_t *)&to, 17, 0, NULL, NULL, &error);
    return rapi_version() == RAPI_VERSION && sid == RAPI_NULL_SID && error == RAPI_ERR_NORSVP;
}
#elif defined SCRAPI
#include <scrapi.h>

static int asked(void)
{
    struct sockaddr_storage to;
    scrapi_agent("/nowhere.sock");
    return scrapi_sockaddr_parse(SOCKADDR(&to), "127.0.0.1", 5004) == 1 &&
           scrapi_sender(SOCKADDR(&to), 17, NULL, 1e6, 0) == 0 && scrapi_errno(NULL, 0, NULL) == 256 + 9;
}
#else
#include <sluice.h>

static int asked(void)
{
    sluice *s;
    int away = sluice_open("/nowhere.sock", &s) == SLUICE_AWAY && strstr(sluice_why(s), "/nowhere.sock") != NULL;
    sluice_close(s);
    return away;
}
#endif

int main(void)
{
    puts(asked() ? "it answers" : "it does not answer as it should");
    return 0;
}
