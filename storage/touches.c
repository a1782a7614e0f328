/* Marks of use on their way to the store: one for each record, the last one counts. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

#define TOUCHES_MAX 1024 /* half of the slots, so that probing is short */
#define TOUCH_SLOTS 2048

typedef struct touch {
    uint64_t hash;
    int64_t when;
    const char *texts[4]; /* profile, schedule, solver, options; into memory behind this struct */
} touch;

struct storage_touches {
    touch *slots[TOUCH_SLOTS];
    size_t count;
};

void storage_touches_free(storage_touches *touches)
{
    if (!touches)
        return;
    for (size_t i = 0; i < TOUCH_SLOTS; i++)
        free(touches->slots[i]);
    free(touches);
}

static touch *touch_new(const char *const texts[4], uint64_t hash)
{
    size_t lengths[4], total = 0;
    for (int i = 0; i < 4; i++)
        total += lengths[i] = texts[i] ? strlen(texts[i]) + 1 : 0;
    touch *mark = malloc(sizeof *mark + total);
    if (!mark)
        return NULL;
    mark->hash = hash;
    char *end = (char *)(mark + 1);
    for (int i = 0; i < 4; i++) {
        mark->texts[i] = texts[i] ? memcpy(end, texts[i], lengths[i]) : NULL;
        end += lengths[i];
    }
    return mark;
}

/* The slot of that mark, or the empty one where it belongs. Two marks of one 64-bit hash would lose
 * one of them, which is harmless. */
static touch **touch_slot(storage_touches *touches, uint64_t hash)
{
    size_t i = hash % TOUCH_SLOTS;
    while (touches->slots[i] && touches->slots[i]->hash != hash)
        i = (i + 1) % TOUCH_SLOTS;
    return &touches->slots[i];
}

bool storage_touches_add(storage_touches **touches, const char *const texts[4])
{
    uint64_t hash = storage_checksum("tttt", texts[0], texts[1], texts[2], texts[3]);
    bool first = !*touches;
    if (first && !(*touches = calloc(1, sizeof **touches)))
        return false;
    touch **slot = touch_slot(*touches, hash);
    if (!*slot) {
        if ((*touches)->count == TOUCHES_MAX || !(*slot = touch_new(texts, hash)))
            return first;
        (*touches)->count++;
    }
    (*slot)->when = remat_store_now();
    return first;
}

remat_status storage_touches_run(storage_connection *connection, void *argument, remat_error *error)
{
    const storage_touches *touches = argument;
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < TOUCH_SLOTS && status == REMAT_OK; i++) {
        const touch *mark = touches->slots[i];
        if (!mark)
            continue;
        const char *profile = mark->texts[0], *schedule = mark->texts[1];
        const char *solver = mark->texts[2], *options = mark->texts[3];
        status = storage_run(connection, SQL_TOUCH_PROFILE, error, "ti", profile, mark->when);
        if (status == REMAT_OK && schedule)
            status = storage_run(connection, SQL_TOUCH_SCHEDULE, error, "ti", schedule, mark->when);
        if (status == REMAT_OK && solver && options)
            status = storage_run(connection, SQL_TOUCH_TABLE, error, "ttti", profile, solver,
                                 options, mark->when);
    }
    return status;
}
