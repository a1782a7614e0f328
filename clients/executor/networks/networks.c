/* The list of networks. */
#include "networks.h"

#include "remat/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const network *const all[] = {&network_vgg19,       &network_resnet18,  &network_resnet50,
                                     &network_resnet101,   &network_resnet152, &network_densenet121,
                                     &network_densenet161, &network_unet,      &network_googlenet,
                                     &network_gpt,         &network_lstm,      &network_siamese,
                                     &network_crossmodal};

const network *const *networks(size_t *ret_count)
{
    *ret_count = sizeof all / sizeof *all;
    return all;
}

static const network *find(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static remat_status fail_unknown(const char *name, remat_error *error)
{
    const char *names[sizeof all / sizeof *all];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        names[i] = all[i]->name;
    remat_fail_unknown("model", "network", name, names, sizeof all / sizeof *all, error);
    return error ? error->status = REMAT_NOT_FOUND : REMAT_NOT_FOUND;
}

static remat_status check_settings(const network_settings *s, remat_error *error)
{
    const struct {
        const char *name;
        uint32_t value, most;
    } limits[] = {{"batch", s->batch, 1u << 20},
                  {"image", s->image, 1u << 14},
                  {"time", s->time, 1u << 16},
                  {"classes", s->classes, 1u << 20},
                  {"parts", s->parts, s->batch < NETWORK_PARTS ? s->batch : NETWORK_PARTS}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value > limits[i].most)
            return remat_fail(error, REMAT_INVALID, limits[i].name, "%s is %u; at most %u",
                              limits[i].name, limits[i].value, limits[i].most);
    const uint64_t rows = (uint64_t)s->batch * s->time;
    const uint64_t pixels = (uint64_t)s->batch * s->image * s->image;
    if (rows > INT32_MAX || pixels > INT32_MAX)
        return remat_fail(error, REMAT_TOO_LARGE, "batch",
                          "a batch of %u is past 2^31 rows or pixels in all", s->batch);
    if (!(s->width >= 1.0 / 64 && s->width <= 16))
        return remat_fail(error, REMAT_INVALID, "width", "width is %g; 1/64 to 16", s->width);
    return REMAT_OK;
}

/* Sizes that were given must be some that the network has. */
static remat_status check_given(const network *found, const network_settings *given,
                                remat_error *error)
{
    const network_settings *usual = &found->usual;
    const struct {
        const char *name;
        uint32_t given, usual;
    } sizes[] = {{"image", given->image, usual->image},
                 {"time", given->time, usual->time},
                 {"classes", given->classes, usual->classes}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].given > 0 && sizes[i].usual == 0)
            return remat_fail(error, REMAT_INVALID, sizes[i].name,
                              "%s is %u, but \"%s\" has no %s; its sizes are batch, width%s%s%s",
                              sizes[i].name, sizes[i].given, found->name, sizes[i].name,
                              usual->image ? ", image" : "", usual->time ? ", time" : "",
                              usual->classes ? ", classes" : "");
    return REMAT_OK;
}

remat_status network_build(const char *name, const network_settings *settings, net_graph *ret_net,
                           remat_error *error)
{
    const network *found = find(name);
    if (!found)
        return fail_unknown(name, error);
    remat_status status = check_given(found, settings, error);
    if (status)
        return status;
    network_settings s = *settings;
    s.batch = s.batch ? s.batch : found->usual.batch;
    s.image = s.image ? s.image : found->usual.image;
    s.time = s.time ? s.time : found->usual.time;
    s.classes = s.classes ? s.classes : found->usual.classes;
    s.width = s.width != 0 ? s.width : found->usual.width;
    s.parts = s.parts ? s.parts : found->usual.parts;
    status = check_settings(&s, error);
    if (status)
        return status;
    if (s.parts > 1 && found->usual.parts == 0)
        return remat_fail(error, REMAT_INVALID, "parts",
                          "\"%s\" does not run in parts of a batch; vgg19 does", name);
    char title[96];
    int length = snprintf(title, sizeof title, "%s-b%u-%u", name, s.batch,
                          found->usual.image ? s.image : s.time);
    if (s.parts > 1)
        snprintf(title + length, sizeof title - (size_t)length, "-in%u", s.parts);
    net_begin(ret_net, title);
    found->build(ret_net, &s);
    return net_finish(ret_net, error);
}

uint32_t network_channels(const network_settings *settings, uint32_t channels)
{
    double scaled = round(channels * settings->width);
    return scaled < 2 ? 2 : (uint32_t)scaled;
}

net_tensor network_conv_norm(net_graph *net, net_tensor x, uint32_t channels, uint32_t kernel,
                             uint32_t stride, bool relu)
{
    x = net_conv(net, x, channels, kernel, stride, (kernel - 1) / 2, 1, false);
    return net_batch_norm(net, x, relu);
}
