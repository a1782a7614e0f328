/* Losses: means over rows. */
#include "cpu.h"

#include <math.h>
#include <string.h>

/* ---- cross-entropy: of every pixel, over channels ---- */

static kernel_cost cross_entropy_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    uint64_t row = node->inputs[0].c * sizeof(float);
    return (kernel_cost){
        .forward_workspace = row, .save_workspace = row, .backward_workspace = row};
}

/* First number of row r, of `pixels` in an image; the others follow at distances of `pixels`. */
static size_t first_of_row(size_t r, size_t n, size_t pixels)
{
    return r / pixels * n * pixels + r % pixels;
}

/* Turns row r into probabilities in the workspace; the loss at its label. */
static double row_loss(const kernel_call *call, size_t r, size_t pixels)
{
    const size_t n = call->node->inputs[0].c;
    const float *x = (const float *)call->inputs[0] + first_of_row(r, n, pixels);
    const int32_t label = ((const int32_t *)call->inputs[1])[r];
    float *row = call->workspace;
    for (size_t j = 0; j < n; j++)
        row[j] = x[j * pixels];
    return cpu_softmax(row, n) - (double)x[(size_t)label * pixels];
}

static int cross_entropy_forward(const kernel_call *call)
{
    const net_tensor x = call->node->inputs[0];
    const size_t pixels = (size_t)x.h * x.w, rows = x.n * pixels;
    double sum = 0;
    for (size_t r = 0; r < rows; r++)
        sum += row_loss(call, r, pixels);
    *call->loss = sum / (double)rows;
    return 0;
}

static int cross_entropy_backward(const kernel_call *call)
{
    const net_tensor x = call->node->inputs[0];
    const size_t pixels = (size_t)x.h * x.w, rows = x.n * pixels;
    float *row = call->workspace, *dx = call->input_gradients[0];
    for (size_t r = 0; r < rows && dx; r++) {
        (void)row_loss(call, r, pixels);
        row[((const int32_t *)call->inputs[1])[r]] -= 1;
        for (size_t j = 0; j < x.c; j++)
            cpu_put(dx + first_of_row(r, x.c, pixels), j * pixels, row[j] / (float)rows,
                    call->accumulate[0]);
    }
    return 0;
}

const kernel cpu_cross_entropy = {cpu_one_implementation, cross_entropy_cost, cross_entropy_forward,
                                  cross_entropy_backward};

/* ---- triplet ---- */

/* How far the row is from where it costs nothing; at most 0: nothing. */
static float triplet_excess(const kernel_call *call, size_t row)
{
    const size_t n = call->node->inputs[0].c;
    const float *a = (const float *)call->inputs[0] + row * n;
    const float *p = (const float *)call->inputs[1] + row * n;
    const float *q = (const float *)call->inputs[2] + row * n;
    float excess = call->node->number;
    for (size_t j = 0; j < n; j++)
        excess += (a[j] - p[j]) * (a[j] - p[j]) - (a[j] - q[j]) * (a[j] - q[j]);
    return excess;
}

static int triplet_forward(const kernel_call *call)
{
    const size_t rows = call->node->inputs[0].n;
    double sum = 0;
    for (size_t r = 0; r < rows; r++) {
        float excess = triplet_excess(call, r);
        sum += excess > 0 ? (double)excess : 0;
    }
    *call->loss = sum / (double)rows;
    return 0;
}

static int triplet_backward(const kernel_call *call)
{
    const size_t rows = call->node->inputs[0].n, n = call->node->inputs[0].c;
    for (size_t r = 0; r < rows; r++) {
        const float scale = triplet_excess(call, r) > 0 ? 2 / (float)rows : 0;
        const float *a = (const float *)call->inputs[0] + r * n;
        const float *p = (const float *)call->inputs[1] + r * n;
        const float *q = (const float *)call->inputs[2] + r * n;
        for (size_t j = 0; j < n; j++) {
            const float shares[3] = {scale * (q[j] - p[j]), scale * (p[j] - a[j]),
                                     scale * (a[j] - q[j])};
            for (size_t k = 0; k < 3; k++)
                if (call->input_gradients[k])
                    cpu_put(call->input_gradients[k] + r * n, j, shares[k], call->accumulate[k]);
        }
    }
    return 0;
}

const kernel cpu_triplet = {cpu_one_implementation, cpu_no_cost, triplet_forward, triplet_backward};

/* ---- contrastive ---- */

/* The workspace: rows of length 1 of both sides, and their similarities over the temperature. */
typedef struct contrast {
    size_t rows, n;
    float *sides[2], *scores, *slopes, *share;
} contrast;

static contrast contrast_of(const kernel_call *call)
{
    contrast c = {.rows = call->node->inputs[0].n, .n = call->node->inputs[0].c};
    c.sides[0] = call->workspace;
    c.sides[1] = c.sides[0] + c.rows * c.n;
    c.scores = c.sides[1] + c.rows * c.n;
    c.slopes = c.scores + c.rows * c.rows;
    c.share = c.slopes + c.rows * c.rows;
    return c;
}

static kernel_cost contrastive_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    uint64_t rows = node->inputs[0].n, n = node->inputs[0].c;
    uint64_t forward = (2 * rows * n + rows * rows + rows) * sizeof(float);
    return (kernel_cost){.forward_workspace = forward,
                         .save_workspace = forward,
                         .backward_workspace =
                             (3 * rows * n + 2 * rows * rows + rows) * sizeof(float)};
}

static float length(const float *x, size_t n)
{
    return sqrtf(cpu_dot(x, x, n)) + 1e-12f;
}

static void compare(const kernel_call *call, const contrast *c)
{
    for (size_t k = 0; k < 2; k++)
        for (size_t r = 0; r < c->rows; r++) {
            const float *x = (const float *)call->inputs[k] + r * c->n;
            const float scale = 1 / length(x, c->n);
            for (size_t j = 0; j < c->n; j++)
                c->sides[k][r * c->n + j] = x[j] * scale;
        }
    cpu_multiply((cpu_matrix){c->sides[0], c->n, false}, (cpu_matrix){c->sides[1], c->n, true},
                 c->rows, c->rows, c->n, false, c->scores, c->rows);
    for (size_t i = 0; i < c->rows * c->rows; i++)
        c->scores[i] /= call->node->number;
}

/* Row or column `at` of the scores, as probabilities; the log of what they were divided by. */
static double probabilities(const contrast *c, size_t at, bool column, float *row)
{
    for (size_t j = 0; j < c->rows; j++)
        row[j] = c->scores[column ? j * c->rows + at : at * c->rows + j];
    return cpu_softmax(row, c->rows);
}

static int contrastive_forward(const kernel_call *call)
{
    const contrast c = contrast_of(call);
    double sum = 0;
    compare(call, &c);
    for (size_t r = 0; r < c.rows; r++)
        sum += probabilities(&c, r, false, c.slopes) + probabilities(&c, r, true, c.slopes) -
               2 * (double)c.scores[r * c.rows + r];
    *call->loss = sum / (2 * (double)c.rows);
    return 0;
}

/* Slopes of the similarities; rows of c->share serve as room. */
static void similarity_slopes(const contrast *c, float temperature)
{
    const float scale = 1 / (2 * (float)c->rows * temperature);
    float *row = c->share + c->rows * c->n;
    memset(c->slopes, 0, c->rows * c->rows * sizeof *c->slopes);
    for (size_t r = 0; r < c->rows; r++) {
        (void)probabilities(c, r, false, row);
        cpu_add_to(c->slopes + r * c->rows, row, c->rows);
        (void)probabilities(c, r, true, row);
        for (size_t j = 0; j < c->rows; j++)
            c->slopes[j * c->rows + r] += row[j];
        c->slopes[r * c->rows + r] -= 2;
    }
    for (size_t i = 0; i < c->rows * c->rows; i++)
        c->slopes[i] *= scale;
}

static int contrastive_backward(const kernel_call *call)
{
    const contrast c = contrast_of(call);
    compare(call, &c);
    similarity_slopes(&c, call->node->number);
    for (size_t k = 0; k < 2; k++) {
        float *dx = call->input_gradients[k];
        cpu_multiply((cpu_matrix){c.slopes, c.rows, k == 1},
                     (cpu_matrix){c.sides[1 - k], c.n, false}, c.rows, c.n, c.rows, false, c.share,
                     c.n);
        for (size_t r = 0; r < c.rows && dx; r++) {
            const float *unit = c.sides[k] + r * c.n, *share = c.share + r * c.n;
            const float along = cpu_dot(unit, share, c.n);
            const float scale = 1 / length((const float *)call->inputs[k] + r * c.n, c.n);
            for (size_t j = 0; j < c.n; j++)
                cpu_put(dx + r * c.n, j, scale * (share[j] - along * unit[j]), call->accumulate[k]);
        }
    }
    return 0;
}

const kernel cpu_contrastive = {cpu_one_implementation, contrastive_cost, contrastive_forward,
                                contrastive_backward};
