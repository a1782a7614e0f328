#include "start/lowerset/front.h"

#include "model/numbers.h"

#include <math.h>
#include <stdlib.h>

static int compare_ties(const graph_front_point *p, const graph_front_point *q)
{
    if (p->step != q->step)
        return p->step < q->step ? -1 : 1;
    return (p->entry > q->entry) - (p->entry < q->entry);
}

static int by_y(const void *left, const void *right)
{
    const graph_front_point *p = left, *q = right;
    int order = model_compare(p->y, q->y);
    order = order ? order : model_compare(p->z, q->z);
    return order ? order : compare_ties(p, q);
}

/* ---- pruning in three dimensions ---- */

/* Points in order of x; each asks for the least z among those met so far with at most its y. These
 * minima are kept in a Fenwick tree over the rank of y. */
typedef struct pruning {
    graph_front_point *points; /* by y, then z */
    size_t count;
    uint32_t *order; /* points by x */
    double *least;   /* the tree, from 1 */
} pruning;

static double least_up_to(const pruning *p, size_t rank)
{
    double z = INFINITY;
    for (size_t i = rank; i > 0; i &= i - 1)
        if (p->least[i] < z)
            z = p->least[i];
    return z;
}

static void lower(pruning *p, size_t rank, double z)
{
    for (size_t i = rank; i <= p->count && z < p->least[i]; i += i & (0 - i))
        p->least[i] = z;
}

static int by_x(const void *left, const void *right, void *context)
{
    const graph_front_point *points = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int order = model_compare(points[a].x, points[b].x);
    return order ? order : (a > b) - (a < b);
}

static void mark_beaten(pruning *p)
{
    for (size_t i = 0; i < p->count; i++) {
        p->order[i] = (uint32_t)i;
        p->least[i + 1] = INFINITY;
    }
    if (p->count > 0)
        qsort_r(p->order, p->count, sizeof *p->order, by_x, p->points);
    for (size_t i = 0; i < p->count; i++) {
        graph_front_point *point = &p->points[p->order[i]];
        size_t rank = p->order[i] + 1;
        if (least_up_to(p, rank) <= point->z)
            point->x = -1;
        else
            lower(p, rank, point->z);
    }
}

/* Keeps of the points, which are sorted by y, those that no other beats in x, y and z; SIZE_MAX:
 * out of memory. Of points with the same y the one with more z comes later and is beaten if its x
 * is no less; a tie the other way round stays, harmlessly. */
static size_t prune(graph_front_point *points, size_t count)
{
    pruning p = {.points = points,
                 .count = count,
                 .order = malloc((count + 1) * sizeof *p.order),
                 .least = malloc((count + 1) * sizeof *p.least)};
    size_t kept = SIZE_MAX;
    if (p.order && p.least) {
        mark_beaten(&p);
        kept = 0;
        for (size_t i = 0; i < count; i++)
            if (points[i].x >= 0)
                points[kept++] = points[i];
    }
    free(p.order);
    free(p.least);
    return kept;
}

/* ---- merging ---- */

/* Old points mostly have the larger x: one that has at least the largest new x is beaten as soon as
 * the new points so far reach its z. */
static size_t merge(const graph_front *old, const graph_front_point *points, size_t count,
                    graph_front_point *to)
{
    double largest = 0, best = INFINITY;
    size_t kept = 0, i = 0, n = old ? old->count : 0;
    for (size_t k = 0; k < count; k++)
        largest = fmax(largest, points[k].x);
    for (size_t k = 0; i < n || k < count;) {
        if (k < count && (i == n || points[k].y <= old->points[i].y)) {
            best = fmin(best, points[k].z);
            to[kept++] = points[k++];
        } else {
            if (old->points[i].x < largest || old->points[i].z < best)
                to[kept++] = old->points[i];
            i++;
        }
    }
    return kept;
}

graph_front *graph_front_merge(const graph_front *old, graph_front_point *points, size_t count)
{
    enum { SLACK = 256 };
    size_t n = old ? old->count : 0;
    graph_front *front = malloc(sizeof *front + (n + count + 1) * sizeof *front->points);
    if (!front)
        return NULL;
    if (count > 0)
        qsort(points, count, sizeof *points, by_y);
    size_t new_count = prune(points, count);
    if (new_count == SIZE_MAX) {
        free(front);
        return NULL;
    }
    front->count = merge(old, points, new_count, front->points);
    front->pruned = old ? old->pruned : 0;
    if (front->count > front->pruned + front->pruned / 2 + SLACK) {
        size_t kept = prune(front->points, front->count);
        if (kept == SIZE_MAX) {
            free(front);
            return NULL;
        }
        front->count = front->pruned = kept;
    }
    graph_front *fitted =
        realloc(front, sizeof *front + (front->count + 1) * sizeof *front->points);
    return fitted ? fitted : front;
}
