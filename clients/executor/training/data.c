/* What networks learn from. Images are gratings: class and direction go together, a phase and noise
 * do not. Text is read from a file, or is made by a rule that is mostly kept. */
#include "model.h"

#include <math.h>
#include <string.h>

enum { CLASSES = 10, SKIPPED = 1 << 20 };

static double uniform(uint64_t seed, uint64_t n)
{
    return (double)(model_random(seed, n) >> 11) * 0x1p-53;
}

/* ---- images ---- */

static uint32_t class_of(uint64_t key, uint32_t image, uint32_t range)
{
    uint32_t classes = range < CLASSES ? range : CLASSES;
    return (uint32_t)(model_random(key, image) % classes);
}

/* Without noise: what the mask of a segmentation shows. */
static float grating(uint32_t class, double phase, uint32_t x, uint32_t y)
{
    double angle = 3.14159265358979 * class / CLASSES;
    return (float)sin(0.6 * (x * cos(angle) + y * sin(angle)) + phase);
}

/* own: tells images of the same classes apart; shift: makes them of other classes. A part of a
 * batch has the images that the whole has in its place. */
static void fill_image(const net_input *in, uint64_t key, uint64_t own, uint32_t shift,
                       uint32_t range, float *to)
{
    size_t pixel = (size_t)in->first * in->c * in->h * in->w;
    for (uint32_t i = in->first; i < in->first + in->n; i++) {
        uint32_t class = (class_of(key, i, range) + shift) % CLASSES;
        double phase = 6.28318530717959 * uniform(key + own, SKIPPED + i);
        for (uint32_t c = 0; c < in->c; c++)
            for (uint32_t y = 0; y < in->h; y++)
                for (uint32_t x = 0; x < in->w; x++, pixel++)
                    *to++ = grating(class, phase + c, x, y) +
                            (float)(uniform(key + own, 2 * SKIPPED + pixel) - 0.5);
    }
}

static void fill_labels(const net_input *in, uint64_t key, int32_t *to)
{
    for (uint32_t i = 0; i < in->n; i++)
        to[i] = (int32_t)class_of(key, i, in->range);
}

/* The class of each pixel: 1 where the grating is above its mean, else 0. */
static void fill_mask(const net_input *in, const net_input *image, uint64_t key, int32_t *to)
{
    for (uint32_t i = 0; i < image->n; i++) {
        double phase = 6.28318530717959 * uniform(key, SKIPPED + i);
        for (uint32_t y = 0; y < image->h; y++)
            for (uint32_t x = 0; x < image->w; x++)
                *to++ = grating(class_of(key, i, CLASSES), phase, x, y) > 0 && in->range > 1;
    }
}

/* Words that go with the class of the image. */
static void fill_caption(const net_input *in, uint32_t images, uint64_t key, int32_t *to)
{
    uint32_t time = in->n / images;
    for (uint32_t i = 0; i < in->n; i++) {
        uint32_t class = class_of(key, i / time, CLASSES);
        to[i] = (int32_t)((class * 7 + model_random(key, SKIPPED + i) % 3) % in->range);
    }
}

/* ---- text ---- */

/* Byte `at` of a row of text. */
static int32_t byte_of(const training_text *t, uint64_t key, uint32_t row, uint64_t at)
{
    if (t && t->length > 0)
        return t->bytes[(model_random(key, row) % t->length + at) % t->length];
    uint64_t start = model_random(key, row) % 64;
    uint64_t noise = model_random(key, SKIPPED + row * 4096 + at);
    return (int32_t)(noise % 16 == 0 ? noise / 16 % 64 : (start + at * 5) % 64);
}

/* Rows of `time` bytes; by_time: [time][rows], else [rows][time]. */
static void fill_text(const net_input *in, const training_text *t, uint64_t key, uint32_t time,
                      bool by_time, uint64_t first, int32_t *to)
{
    const uint32_t rows = in->n / time;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < time; i++)
            to[by_time ? (size_t)i * rows + row : (size_t)row * time + i] =
                byte_of(t, key, row, first + i) % (int32_t)in->range;
}

/* ---- all inputs ---- */

static const net_input *find(const net_graph *net, const char *id)
{
    for (uint32_t k = 0; k < net->n_inputs; k++)
        if (strcmp(net->inputs[k].id, id) == 0)
            return &net->inputs[k];
    return NULL;
}

/* Rows of text: of the network's embedding, or the batch of an LSTM. */
static uint32_t text_time(const net_graph *net)
{
    for (uint32_t v = 0; v < net->n_nodes; v++)
        if (net->nodes[v].kind == NET_EMBEDDING)
            return net->nodes[v].time;
    return 0;
}

static void fill_one(const net_graph *net, const net_input *in, const training_text *t,
                     uint64_t key, void *to)
{
    const net_input *image = find(net, "image"), *label = find(net, "label");
    const net_input *tokens = find(net, "tokens"), *last = find(net, "following");
    uint32_t time = last ? tokens->n / last->n : text_time(net);
    if (in->kind == NET_IMAGE) {
        bool positive = strcmp(in->id, "positive") == 0, negative = strcmp(in->id, "negative") == 0;
        fill_image(in, key,
                   positive   ? 1
                   : negative ? 2
                              : 0,
                   negative ? 3 : 0, label ? label->range : CLASSES, to);
    } else if (strcmp(in->id, "label") == 0)
        fill_labels(in, key, to);
    else if (strcmp(in->id, "mask") == 0)
        fill_mask(in, image, key, to);
    else if (strcmp(in->id, "caption") == 0)
        fill_caption(in, image->n, key, to);
    else if (strcmp(in->id, "following") == 0)
        fill_text(in, t, key, 1, true, time, to);
    else
        fill_text(in, t, key, time, last != NULL, strcmp(in->id, "next") == 0, to);
}

void model_fill(model *m, const training_text *t, uint64_t seed, uint64_t step)
{
    for (uint32_t k = 0; k < m->net->n_inputs; k++)
        fill_one(m->net, &m->net->inputs[k], t, model_random(seed, step), m->inputs[k]);
}
