#include "security/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->unhashed = 1)
#include <uthash.h>

enum { MANY_CLIENTS = 10000 };

typedef struct client {
    char name[CLIENT_SIZE];
    UT_hash_handle hh;
    int unhashed;
    double left;   /* requests in the bucket */
    uint64_t last; /* uv_hrtime when left was right */
    unsigned jobs;
} client;

struct limits {
    client *clients;
};

limits *limits_new(void)
{
    return calloc(1, sizeof(limits));
}

static void forget(limits *l, client *one)
{
    HASH_DEL(l->clients, one);
    free(one);
}

void limits_free(limits *l)
{
    client *one, *next;
    if (!l)
        return;
    HASH_ITER(hh, l->clients, one, next)
    {
        forget(l, one);
    }
    free(l);
}

/* Clients that have been silent for a minute have full buckets: they need not be known. */
static void forget_silent(limits *l, uint64_t now)
{
    client *one, *next;
    HASH_ITER(hh, l->clients, one, next)
    {
        if (one->jobs == 0 && now - one->last > UINT64_C(60000000000))
            forget(l, one);
    }
}

/* NULL: out of memory. */
static client *find(limits *l, const char *name, uint64_t now)
{
    client *one = NULL;
    HASH_FIND_STR(l->clients, name, one);
    if (one)
        return one;
    if (HASH_COUNT(l->clients) >= MANY_CLIENTS)
        forget_silent(l, now);
    one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    snprintf(one->name, sizeof one->name, "%s", name);
    one->left = INFINITY; /* a full bucket, whatever its size */
    one->last = now;
    HASH_ADD_STR(l->clients, name, one);
    if (!one->unhashed)
        return one;
    free(one);
    return NULL;
}

bool limits_admit(limits *l, const char *name, double rate, unsigned *ret_seconds)
{
    if (rate <= 0)
        return true;
    uint64_t now = uv_hrtime();
    client *one = find(l, name, now);
    double size = fmax(2 * rate, 10);
    if (!one)
        return true;
    one->left = fmin(one->left + (double)(now - one->last) / 1e9 * rate, size);
    one->last = now;
    if (one->left >= 1) {
        one->left--;
        return true;
    }
    *ret_seconds = (unsigned)ceil((1 - one->left) / rate);
    return false;
}

bool limits_start_job(limits *l, const char *name, unsigned most)
{
    client *one = find(l, name, uv_hrtime());
    if (!one)
        return true;
    if (most > 0 && one->jobs >= most)
        return false;
    one->jobs++;
    return true;
}

void limits_end_job(limits *l, const char *name)
{
    client *one = NULL;
    HASH_FIND_STR(l->clients, name, one);
    if (one && one->jobs > 0)
        one->jobs--;
}
