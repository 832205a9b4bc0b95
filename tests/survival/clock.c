/* Makes the wall clock jump: back or forth by an hour with each call. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    static atomic_long calls;
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (status == 0 && clock == CLOCK_REALTIME)
        now->tv_sec += atomic_fetch_add(&calls, 1) % 2 ? 3600 : -3600;
    return status;
}
