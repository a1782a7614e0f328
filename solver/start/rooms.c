#include "start/rooms.h"

#include <math.h>

typedef struct filling {
    const start_rooms *rooms;
    uint32_t *unit, *group, n_units;
} filling;

/* Whether to end a unit behind one node rather than behind an earlier one. */
static bool is_better_end(const start_rooms *r, uint32_t v, uint32_t old)
{
    return r->crossing[v] != r->crossing[old] ? r->crossing[v] < r->crossing[old]
                                              : r->spared[v] >= r->spared[old];
}

/* The end of the unit that begins there: where least crosses in the second half of what there is
 * room for, or it may be, and of those where most is spared. `first`: there is none. */
static uint32_t fill_unit(const start_rooms *r, uint32_t first, double room, double most)
{
    const double half = fmin(room, most) / 2;
    double held = 0;
    uint32_t end = first;
    for (uint32_t v = first; v < r->n; v++) {
        held += r->kept[v];
        if (held + r->during[v] > room || (held > most && end > first))
            return end;
        if (held < half || end == first || is_better_end(r, v, end - 1))
            end = v + 1;
    }
    return r->n;
}

/* What a part leaves beside those behind it, but for what crosses its end. */
static double stays(const start_rooms *r, uint32_t first, uint32_t end)
{
    double sum = 0;
    for (uint32_t v = first; v < end; v++)
        sum += r->dropped[v] ? 0 : r->kept[v];
    return sum;
}

static void mark(filling *f, uint32_t first, uint32_t end, uint32_t group)
{
    for (uint32_t v = first; v < end; v++) {
        f->unit[v] = f->n_units;
        f->group[v] = group;
    }
    f->n_units++;
}

/* The end of a group, which is not where much more crosses than behind its first unit. */
static uint32_t fill_group(filling *f, uint32_t first, double room, uint32_t group)
{
    const start_rooms *r = f->rooms;
    double least = INFINITY;
    uint32_t at = first;
    while (at < r->n) {
        const uint32_t end = fill_unit(r, at, room, INFINITY);
        if (end == at || (end < r->n && r->crossing[end - 1] > 1.5 * least))
            break;
        mark(f, at, end, group);
        room -= stays(r, at, end) + r->crossing[end - 1];
        least = fmin(least, r->crossing[end - 1]);
        at = end;
    }
    return at;
}

/* The last group's backward begins at once: its units are groups of their own. */
static void split_last(filling *f, uint32_t first)
{
    for (uint32_t v = first + 1; v < f->rooms->n; v++)
        f->group[v] = f->group[v - 1] + (f->unit[v] != f->unit[v - 1]);
}

static bool reaches_end(filling *f, double room, uint32_t until, bool in_groups, bool whole,
                        double most)
{
    const start_rooms *r = f->rooms;
    uint32_t first = 0, end = 0;
    f->n_units = 0;
    for (uint32_t group = 0; end < r->n; group++) {
        first = end;
        if (in_groups && first < until)
            end = fill_group(f, first, room, group);
        else if ((end = fill_unit(r, first, room, first < until ? INFINITY : most)) > first)
            mark(f, first, end, group);
        if (end == first)
            return false;
        room -= stays(r, first, end) + r->crossing[end - 1];
    }
    if (!whole)
        split_last(f, first);
    return true;
}

uint32_t start_fill_rooms(const start_rooms *r, uint32_t until, bool in_groups, bool whole,
                          double most, uint32_t *unit, uint32_t *group)
{
    enum { HALVINGS = 20 };
    filling f = {.rooms = r, .unit = unit, .group = group};
    double low = 0, high = 0;
    for (uint32_t v = 0; v < r->n; v++)
        high += r->kept[v] + r->during[v] + r->crossing[v];
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        *(reaches_end(&f, middle, until, in_groups, whole, most) ? &high : &low) = middle;
    }
    return reaches_end(&f, high, until, in_groups, whole, most) ? f.n_units : 0;
}
