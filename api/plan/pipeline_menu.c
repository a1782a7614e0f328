/* What is known of the stages of a pipeline: their bytes, what no schedule of them beats, what they
 * answered. */
#include "plan/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Answers lie above their bounds by about a tenth of what the bounds are above storing everything.
 */
static const double USUAL_GAP = 1.1;
/* Lists of at most so many are laid out; those of more take little beside their peak. */
enum { FEW_NODES = 64 };
/* Of at most so many the bound says too little of what another budget would answer. */
enum { SMALL = 150 };

/* The array with room for one more behind n; NULL: out of memory, and the old one stays. */
void *api_pipeline_grow(void *array, size_t n, size_t size)
{
    return n & (n - 1) ? array : realloc(array, (n ? 2 * n : 1) * size);
}

/* ---- stages ---- */

static remat_status read_shape(const api_pipeline *p, api_shape *s, remat_error *error)
{
    remat_status status =
        api_stage_profile(p->profile, &p->units, s->first, s->end, &s->profile, error);
    if (status)
        return status;
    s->all = remat_store_all_makespan(s->profile);
    for (uint32_t v = 0; v < s->profile->n_nodes; v++) {
        double least = s->profile->nodes[v].forward_time;
        for (uint32_t k = 1; k <= s->profile->nodes[v].n_alternatives; k++)
            least = fmin(least, remat_implementation(&s->profile->nodes[v], k).forward_time);
        s->forward += least;
    }
    return remat_stage_by_nodes(s->profile, NULL, NULL, 0, &s->everything, error);
}

/* Whether storing everything fits, and takes no longer than nothing run again does. */
static bool is_free(const api_shape *s, uint32_t in_flight, uint64_t budget)
{
    const remat_stage_list *list = &s->everything;
    return list->forward + list->backward <= s->all * (1 + 1e-12) &&
           list->peak + (in_flight - 1) * list->held <= budget;
}

remat_status api_pipeline_shape(api_pipeline *p, uint32_t first, uint32_t end, size_t *ret_shape,
                                remat_error *error)
{
    const uint32_t *kind = &p->units.kind[first], n = end - first;
    for (size_t i = 0; i < p->n_shapes; i++) {
        const api_shape *s = &p->shapes[i];
        if (s->end - s->first == n &&
            memcmp(&p->units.kind[s->first], kind, n * sizeof *kind) == 0) {
            *ret_shape = i;
            return REMAT_OK;
        }
    }
    api_shape *more = api_pipeline_grow(p->shapes, p->n_shapes, sizeof *more);
    if (!more)
        return remat_fail_memory(error);
    p->shapes = more;
    more[p->n_shapes] = (api_shape){.first = first, .end = end};
    remat_status status = read_shape(p, &more[p->n_shapes], error);
    if (status)
        remat_profile_free(more[p->n_shapes].profile);
    else
        *ret_shape = p->n_shapes++;
    return status;
}

/* Where the last product has the first matrix's weights, the last rank has a copy of them. */
remat_status api_pipeline_table(const api_pipeline *p, const api_part *parts, uint32_t n_parts,
                                remat_step_table *ret_table, remat_error *error)
{
    const bool ends = parts[n_parts - 1].end == p->units.n;
    const remat_tensor none = {1, 0, 0, 0, REMAT_TRAINED, false};
    remat_tensor *own = malloc((p->n_tensors + 1) * sizeof *own);
    size_t n = 0;
    if (!own)
        return remat_fail_memory(error);
    for (uint32_t k = 0; k < n_parts; k++)
        for (size_t i = 0; i < p->n_tensors; i++)
            if (p->tensors[i].unit >= parts[k].first && p->tensors[i].unit < parts[k].end)
                own[n++] = p->tensors[i];
    if (p->tied && ends && parts[0].first > 0)
        own[n++] = p->tensors[0];
    remat_status status =
        remat_step_bytes(n ? own : &none, n ? n : 1, &p->q.step, &p->q.device, ret_table, error);
    if (!status && ends)
        ret_table->hole = p->hole;
    free(own);
    return status;
}

/* Of the memory of a rank: all but what activations may take. */
uint64_t api_pipeline_fixed(const remat_step_table *table, uint64_t memory)
{
    const uint64_t room = remat_step_room(table, memory);
    const uint64_t alone = remat_step_memory(table, 0).driver;
    return room > 0 ? memory - room : alone > memory ? alone : memory;
}

void api_pipeline_beside(const api_pipeline *p, const api_part *parts, uint32_t n_parts,
                         const remat_step_table *table, double backward, api_beside *beside)
{
    const remat_interconnect *way = &p->q.device.interconnect;
    remat_unit_load *loads = p->loads + p->units.n;
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_parts; n += parts[k].end - parts[k].first, k++)
        memcpy(&loads[n], &p->loads[parts[k].first],
               (parts[k].end - parts[k].first) * sizeof *loads);
    double once = 0;
    for (uint32_t u = 0; u < n; u++)
        once += loads[u].backward;
    const double stretch = once > 0 ? fmax(1, backward * p->unit / once) : 1;
    const double update = api_update_seconds(&p->q.device, table);
    const double exposed = remat_step_exchange(loads, n, &p->q.step, way, stretch).exposed;
    if (update + exposed > beside->update + beside->exchange)
        *beside = (api_beside){update, exposed};
}

/* A stage of the same kinds whose bytes are known; tied ends have more than their kinds tell. */
static size_t alike(const api_pipeline *p, uint32_t first, uint32_t end)
{
    const size_t width = p->units.n + 1, length = end - first;
    const uint32_t *kind = p->units.kind;
    for (size_t k = first; k-- > 1 && end < p->units.n;)
        if (p->menus[k * width + k + length].fixed != UINT64_MAX &&
            memcmp(&kind[k], &kind[first], length * sizeof *kind) == 0)
            return k * width + k + length;
    return SIZE_MAX;
}

remat_status api_pipeline_bytes(void *data, uint32_t first, uint32_t end,
                                remat_stage_menu *ret_menu, remat_error *error)
{
    api_pipeline *p = data;
    const uint32_t start = api_unit_start(&p->units, first), last = p->units.end[end - 1] - 1;
    const size_t cell = first * (p->units.n + 1) + end;
    remat_stage_menu *menu = &p->menus[cell];
    const size_t same = menu->fixed == UINT64_MAX ? alike(p, first, end) : SIZE_MAX;
    if (same != SIZE_MAX) {
        *menu = p->menus[same];
        p->updates[cell] = p->updates[same];
    } else if (menu->fixed == UINT64_MAX) {
        const api_part part = {first, end};
        api_beside beside = {0, 0};
        remat_step_table table;
        remat_status status = api_pipeline_table(p, &part, 1, &table, error);
        if (status)
            return status;
        api_pipeline_beside(p, &part, 1, &table, 0, &beside);
        p->updates[cell] = beside.update / p->unit;
        *menu =
            (remat_stage_menu){.fixed = api_pipeline_fixed(&table, p->question.memory),
                               .input = first > 0 ? p->profile->nodes[start - 1].output_bytes : 0,
                               .output = p->profile->nodes[last].output_bytes,
                               .beside = (beside.update + beside.exchange) / p->unit};
    }
    *ret_menu = *menu;
    return REMAT_OK;
}

/* What a schedule may take on a rank, beside all that is there and on its way. */
uint64_t api_pipeline_budget(const api_pipeline *p, uint32_t rank, uint32_t in_flight,
                             const remat_stage_menu *menu, unsigned out, unsigned back)
{
    const uint64_t room = remat_pipeline_room(&p->question, rank, in_flight, menu);
    const bool sends_on =
        rank + 1 < p->question.pipeline.ranks && !p->question.pipeline.runtime.keeps_outputs;
    const uint64_t way = back * menu->input + (sends_on ? out * menu->output : 0);
    return room > way ? room - way : 0;
}

/* ---- what is known of schedules ---- */

remat_status api_pipeline_total(api_pipeline *p, size_t shape, uint32_t in_flight, uint64_t budget,
                                double *ret_total, remat_error *error)
{
    api_shape *s = &p->shapes[shape];
    if (in_flight == 0 || is_free(s, in_flight, budget)) {
        *ret_total = s->all;
        return REMAT_OK;
    }
    for (size_t i = 0; i < s->n_leasts; i++) {
        const api_least *x = &s->leasts[i];
        if (x->in_flight == in_flight && x->budget == budget) {
            *ret_total = x->total;
            return REMAT_OK;
        }
    }
    api_least *more = api_pipeline_grow(s->leasts, s->n_leasts, sizeof *more);
    if (!more)
        return remat_fail_memory(error);
    s->leasts = more;
    double total = INFINITY;
    if (remat_host_cancelled(p->q.host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    remat_status status =
        budget > 0 ? remat_least_makespan(s->profile, &s->moments, budget, in_flight, &total, error)
                   : REMAT_OK;
    if (status)
        return status;
    more[s->n_leasts++] = (api_least){in_flight, budget, total};
    *ret_total = total;
    return REMAT_OK;
}

static double least_sum(const api_pipeline *p, uint32_t first, uint32_t end)
{
    double sum = 0;
    for (uint32_t u = first; u < end; u++)
        sum += p->units.least[u];
    return sum;
}

/* For the bound: remat_least_host. A stage that no plan looked at has counts as if it fitted. */
remat_status api_pipeline_least(void *data, uint32_t rank, uint32_t in_flight, uint32_t first,
                                uint32_t end, remat_stage_least *ret_least, remat_error *error)
{
    api_pipeline *p = data;
    remat_stage_menu menu;
    size_t shape = 0;
    remat_status status = api_pipeline_bytes(p, first, end, &menu, error);
    if (status)
        return status;
    *ret_least = (remat_stage_least){.total = least_sum(p, first, end),
                                     .input = menu.input,
                                     .output = menu.output,
                                     .beside = p->updates[first * (p->units.n + 1) + end]};
    if (ret_least->total > p->longest)
        return REMAT_OK;
    status = api_pipeline_shape(p, first, end, &shape, error);
    if (status)
        return status;
    const uint64_t budget =
        in_flight > 0 ? api_pipeline_budget(p, rank, in_flight, &menu, 0, 0) : 0;
    ret_least->forward = p->shapes[shape].forward;
    ret_least->backward = p->shapes[shape].all - p->shapes[shape].forward;
    return api_pipeline_total(p, shape, in_flight, budget, &ret_least->total, error);
}

remat_status api_pipeline_serves(api_pipeline *p, size_t shape, uint32_t n, uint64_t less,
                                 uint64_t budget, bool *ret_serves, remat_error *error)
{
    double least = 0, of_less = 0;
    *ret_serves = less == budget;
    if (less >= budget || p->shapes[shape].profile->n_nodes <= SMALL)
        return REMAT_OK;
    remat_status status = api_pipeline_total(p, shape, n, budget, &least, error);
    if (!status)
        status = api_pipeline_total(p, shape, n, less, &of_less, error);
    *ret_serves = !status && of_less <= least * (1 + API_WORTH_A_ROUND);
    return status;
}

/* Who answered that question, or one with less that serves; else who was refused with as much or
 * more. SIZE_MAX: nobody. */
static remat_status find_asked(api_pipeline *p, size_t shape, uint32_t n, uint64_t budget,
                               size_t *ret_known, remat_error *error)
{
    const api_asked *known = NULL;
    for (size_t i = 0; i < p->n_asked; i++) {
        const api_asked *x = &p->asked[i];
        bool serves = !x->fits && x->budget >= budget;
        if (!x->done || x->shape != shape || x->in_flight != n)
            continue;
        remat_status status =
            x->fits ? api_pipeline_serves(p, shape, n, x->budget, budget, &serves, error)
                    : REMAT_OK;
        if (status)
            return status;
        if (serves && (!known || (x->fits && (!known->fits || x->budget > known->budget))))
            known = x;
    }
    *ret_known = known ? (size_t)(known - p->asked) : SIZE_MAX;
    return REMAT_OK;
}

/* What the stage answered, or is likely to. */
remat_status api_pipeline_likely(api_pipeline *p, size_t shape, uint32_t n, uint64_t budget,
                                 remat_stage_list *lists, size_t *count, remat_error *error)
{
    const api_shape *s = &p->shapes[shape];
    size_t known = SIZE_MAX;
    const double gap = p->hopes == API_USUAL ? USUAL_GAP : 1;
    double total = INFINITY;
    remat_status status = find_asked(p, shape, n, budget, &known, error);
    if (status)
        return status;
    if (known != SIZE_MAX) {
        if (p->asked[known].fits) {
            lists[*count] = p->asked[known].list;
            lists[*count].tag = known;
            lists[(*count)++].in_flight = n;
        }
        return REMAT_OK;
    }
    status = api_pipeline_total(p, shape, n, budget, &total, error);
    if (!status && total < INFINITY)
        lists[(*count)++] =
            (remat_stage_list){.forward = s->forward,
                               .backward = s->all - s->forward + gap * (total - s->all),
                               .peak = p->hopes == API_FAST_AND_SMALL ? 0 : budget,
                               .tag = API_UNASKED | budget,
                               .in_flight = n};
    return status;
}

/* Of a rank: with room for none to so many sends of each way, which need not meet its peak. */
static remat_status put_lists(api_pipeline *p, size_t shape, uint32_t rank,
                              const remat_stage_menu *menu, remat_stage_list *lists, size_t *count,
                              remat_error *error)
{
    const uint32_t n = remat_pipeline_in_flight(&p->question.pipeline, rank);
    uint64_t budgets[API_ROOMS];
    remat_status status = REMAT_OK;
    size_t n_budgets = 0;
    for (unsigned i = 0; i < (p->sends + 1) * (p->sends + 1) && !status; i++) {
        const uint64_t budget =
            api_pipeline_budget(p, rank, n, menu, i / (p->sends + 1), i % (p->sends + 1));
        size_t k = 0;
        while (k < n_budgets && budgets[k] != budget)
            k++;
        if (k < n_budgets)
            continue;
        budgets[n_budgets++] = budget;
        status = api_pipeline_likely(p, shape, n, budget, lists, count, error);
    }
    return status;
}

/* Once for all stages of a shape: a plan looks at thousands of stages of a hundred shapes. */
remat_status api_pipeline_blocks_of(api_pipeline *p, size_t shape, uint32_t first, uint32_t end,
                                    unsigned doubling, int last, uint32_t n,
                                    remat_stage_list *ret_list, remat_error *error)
{
    api_blocks_list *own = &p->shapes[shape].blocks[doubling][last];
    const bool ends = end == p->units.n;
    remat_status status = REMAT_OK;
    if (!own->known || own->in_flight != n || own->ends != ends) {
        *own = (api_blocks_list){.ends = ends, .in_flight = n, .list = {.in_flight = n}};
        status = api_pipeline_blocks(p, shape, first, end, 1U << doubling, last, &own->list, error);
        own->known = status == REMAT_OK;
    }
    *ret_list = own->list;
    ret_list->tag = API_BLOCKS;
    return status;
}

/* Of the planner: remat_stage_host. */
remat_status api_pipeline_menu(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                               remat_error *error)
{
    api_pipeline *p = data;
    const uint32_t ranks = p->question.pipeline.ranks, n_units = p->units.n;
    size_t shape = 0, count = 0;
    uint32_t before = UINT32_MAX, n = 0;
    remat_status status = api_pipeline_bytes(p, first, end, ret_menu, error);
    if (status || least_sum(p, first, end) > p->longest)
        return status;
    remat_stage_list *lists = malloc((ranks * API_ROOMS + 2 * API_MOST_DOUBLINGS) * sizeof *lists);
    p->lists[first * (n_units + 1) + end] = lists;
    status = lists ? api_pipeline_shape(p, first, end, &shape, error) : remat_fail_memory(error);
    for (uint32_t rank = 0; rank < ranks && !status; rank++) {
        const bool may_be = (rank == 0) == (first == 0) && (rank + 1 == ranks) == (end == n_units);
        if (!may_be)
            continue;
        n = remat_pipeline_in_flight(&p->question.pipeline, rank);
        if (n != before && !p->real)
            status = put_lists(p, shape, rank, ret_menu, lists, &count, error);
        before = n;
    }
    const int most_last = n > 1 && !p->q.solver ? 2 : 1;
    if (!status && p->shapes[shape].profile->n_nodes > FEW_NODES)
        n = 0;
    for (unsigned d = 0; p->real && 1U << d < 2 * (end - first) && !status; d++)
        for (int last = 0; last < most_last && !status; last++)
            status =
                api_pipeline_blocks_of(p, shape, first, end, d, last, n, &lists[count++], error);
    ret_menu->lists = lists;
    ret_menu->n_lists = count;
    return status;
}
