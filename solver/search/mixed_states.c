/* Mutable states in the mixed search: the S and R that model/states.c will insert, counted before
 * they are there. A version is saved where its state first leaves it, if it is restored later, and
 * takes its bytes up to the last time it is. */
#include "search/mixed_row.h"

static bool allocate(things *t)
{
    const remat_profile *p = t->profile;
    model_arena *a = &t->arena;
    size_t touches = 0, versions = 0;
    for (uint32_t v = 0; v < t->n; v++)
        touches += (size_t)p->nodes[v].n_reads + p->nodes[v].n_writes;
    for (uint32_t k = 0; k < p->n_states; k++)
        versions += (size_t)p->states[k].n_writers + 1;
    t->first_touch = model_arena_array(a, (size_t)t->n + 1, sizeof *t->first_touch);
    t->touches = model_arena_array(a, touches, sizeof *t->touches);
    t->first_version = model_arena_array(a, (size_t)p->n_states + 1, sizeof *t->first_version);
    t->current = model_arena_array(a, p->n_states, sizeof *t->current);
    t->left_at = model_arena_array(a, versions, sizeof *t->left_at);
    t->restored_at = model_arena_array(a, versions, sizeof *t->restored_at);
    return t->first_touch && t->touches && t->first_version && t->current && t->left_at &&
           t->restored_at;
}

bool mixed_states_init(things *t)
{
    const remat_profile *p = t->profile;
    uint32_t at = 0;
    if (!allocate(t))
        return false;
    for (uint32_t k = 0; k < p->n_states; k++) {
        t->first_version[k + 1] = t->first_version[k] + p->states[k].n_writers + 1;
        t->current[k] = t->first_version[k];
    }
    for (uint32_t v = 0; v < t->n; v++) {
        const remat_node *node = &p->nodes[v];
        t->first_touch[v] = at;
        for (uint32_t i = 0; i < node->n_reads; i++)
            t->touches[at++] = (touch){node->reads[i], t->current[node->reads[i]], false};
        for (uint32_t i = 0; i < node->n_writes; i++)
            t->touches[at++] = (touch){node->writes[i], ++t->current[node->writes[i]], true};
    }
    t->first_touch[t->n] = at;
    return true;
}

/* From item i on the state holds that version; where it was read, it has to have held it before. */
static bool holds(things *t, const touch *one, uint32_t i)
{
    uint32_t *current = &t->current[one->state];
    if (*current == one->version)
        return true;
    if (!one->written && t->left_at[one->version] == NONE)
        return false;
    if (!one->written)
        t->restored_at[one->version] = i;
    if (t->left_at[*current] == NONE)
        t->left_at[*current] = i;
    *current = one->version;
    return true;
}

static bool play_states(things *t, const row *r)
{
    const remat_profile *p = t->profile;
    memset(t->left_at, 0xff, t->first_version[p->n_states] * sizeof *t->left_at);
    memset(t->restored_at, 0xff, t->first_version[p->n_states] * sizeof *t->restored_at);
    memcpy(t->current, t->first_version, p->n_states * sizeof *t->current);
    for (uint32_t i = 0; i < r->length; i++) {
        const item *it = &r->items[i];
        if (it->kind != RUN || is_backward(t, it->id))
            continue;
        for (uint32_t k = t->first_touch[it->id]; k < t->first_touch[it->id + 1]; k++)
            if (!holds(t, &t->touches[k], i))
                return false;
    }
    for (uint32_t k = 0; k < p->n_states; k++) {
        const touch end = {k, t->first_version[k + 1] - 1, false};
        if (!holds(t, &end, r->length))
            return false;
    }
    return true;
}

/* What a run makes is not there yet when its states are restored. */
static double made_by(const mixer *m, const item *it, uint32_t i)
{
    const things *t = m->t;
    const task *one = &t->tasks[it->id];
    double bytes = 0;
    for (uint32_t k = one->made; k < one->reads; k++)
        bytes += k + 1 < one->reads || m->marks[i] & SAVES ? t->bytes[t->list[k]] : 0;
    return bytes;
}

bool mixed_count_states(mixer *m, const row *r, double *excess)
{
    things *t = m->t;
    const remat_profile *p = t->profile;
    double alive = 0;
    if (!play_states(t, r))
        return false;
    memset(m->freed, 0, (r->length + 1) * sizeof *m->freed);
    memset(m->change, 0, (r->length + 1) * sizeof *m->change);
    for (uint32_t k = 0; k < p->n_states; k++) {
        const double bytes = rounded(t, p->states[k].bytes);
        for (uint32_t x = t->first_version[k]; x < t->first_version[k + 1]; x++) {
            if (t->restored_at[x] == NONE)
                continue;
            m->change[t->left_at[x]] += bytes;
            m->change[t->restored_at[x]] -= bytes;
            m->freed[t->restored_at[x]] += bytes;
        }
    }
    *excess = 0;
    for (uint32_t i = 0; i < r->length; i++) {
        alive += m->change[i];
        if (m->marks[i] & SKIPPED)
            continue;
        m->level[i] += alive;
        if (m->freed[i] > 0)
            m->level[i] += larger(0, m->freed[i] - made_by(m, &r->items[i], i) - m->extra[i]);
        *excess += larger(m->level[i] - t->budget, 0);
    }
    return true;
}
