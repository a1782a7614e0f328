/* From the command line to a network on a device with its profile. */
#include "train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static remat_status read_text(train *t)
{
    enum { MOST = 64 << 20 };
    const char *path = t->options->data;
    bool reads = false;
    for (uint32_t k = 0; k < t->net.n_inputs; k++)
        reads = reads || strcmp(t->net.inputs[k].id, "tokens") == 0;
    if (!reads)
        return remat_fail(&t->error, REMAT_INVALID, "data",
                          "--data does nothing beside --model %s, which reads no text: gpt and "
                          "lstm do",
                          t->options->model);
    FILE *file = fopen(path, "rb");
    if (!file)
        return remat_fail(&t->error, REMAT_INVALID, "data", "cannot open %.200s: %s", path,
                          strerror(errno));
    t->text.bytes = malloc(MOST);
    t->text.length = t->text.bytes ? fread(t->text.bytes, 1, MOST, file) : 0;
    bool failed = ferror(file) != 0, more = t->text.length == MOST && fgetc(file) != EOF;
    fclose(file);
    if (!t->text.bytes)
        return remat_fail_memory(&t->error);
    if (failed || t->text.length == 0)
        return remat_fail(&t->error, REMAT_INVALID, "data", "%.200s %s", path,
                          failed ? "cannot be read" : "is empty");
    if (more)
        return remat_fail(&t->error, REMAT_TOO_LARGE, "data", "%.200s is larger than %d bytes",
                          path, MOST);
    return REMAT_OK;
}

/* ---- profiles ---- */

static bool same_costs(const remat_node *a, const remat_node *b)
{
    return strcmp(a->id, b->id) == 0 && a->n_inputs == b->n_inputs &&
           a->output_bytes == b->output_bytes && a->saved_bytes == b->saved_bytes &&
           a->gradient_bytes == b->gradient_bytes &&
           a->forward_workspace_bytes == b->forward_workspace_bytes &&
           a->save_workspace_bytes == b->save_workspace_bytes &&
           a->backward_workspace_bytes == b->backward_workspace_bytes &&
           a->backward_uses_inputs == b->backward_uses_inputs &&
           a->backward_uses_output == b->backward_uses_output && a->in_place == b->in_place &&
           memcmp(a->inputs, b->inputs, a->n_inputs * sizeof *a->inputs) == 0;
}

/* The kernels write as much workspace as they need: it must be what the profile plans. A profile
 * may leave the alternatives out. */
static bool same_alternatives(const remat_node *read, const remat_node *own)
{
    if (read->n_alternatives > 0 && read->n_alternatives != own->n_alternatives)
        return false;
    for (uint32_t k = 0; k < read->n_alternatives; k++) {
        const remat_alternative *a = &read->alternatives[k], *b = &own->alternatives[k];
        if (strcmp(a->name, b->name) != 0 || a->saved_bytes != b->saved_bytes ||
            a->forward_workspace_bytes != b->forward_workspace_bytes ||
            a->save_workspace_bytes != b->save_workspace_bytes ||
            a->backward_workspace_bytes != b->backward_workspace_bytes)
            return false;
    }
    return true;
}

/* A profile from a file may differ from that of the network in its times only. */
static remat_status check_profile(train *t, const remat_profile *read)
{
    const remat_profile *own = t->profile;
    if (read->n_nodes != own->n_nodes || read->n_inputs != own->n_inputs ||
        read->n_states != own->n_states)
        return remat_fail(&t->error, REMAT_INVALID, "profile",
                          "the profile \"%.60s\" has %u nodes, %u inputs and %u states; \"%.60s\" "
                          "has %u, %u and %u",
                          read->name, read->n_nodes, read->n_inputs, read->n_states, own->name,
                          own->n_nodes, own->n_inputs, own->n_states);
    for (uint32_t v = 0; v < own->n_nodes; v++)
        if (!same_costs(&read->nodes[v], &own->nodes[v]) ||
            !same_alternatives(&read->nodes[v], &own->nodes[v]))
            return remat_fail(&t->error, REMAT_INVALID, "profile",
                              "node %u of the profile, \"%.60s\", is not \"%.60s\" of the network "
                              "with its sizes",
                              v, read->nodes[v].id, own->nodes[v].id);
    for (uint32_t k = 0; k < own->n_inputs; k++)
        if (read->inputs[k].bytes != own->inputs[k].bytes)
            return remat_fail(&t->error, REMAT_INVALID, "profile",
                              "input \"%.60s\" of the profile has another size",
                              read->inputs[k].id);
    return REMAT_OK;
}

/* --budget, of the profile as it is now. */
static remat_status read_budget(train *t)
{
    remat_amount amount;
    json_t *text = json_string(t->options->budget);
    if (!text)
        return remat_fail_memory(&t->error);
    remat_status status = remat_amount_decode(text, "budget", true, &amount, &t->error);
    json_decref(text);
    if (status)
        return status;
    t->budget = amount.percent ? (uint64_t)(amount.value / 100 * (double)t->store_all)
                               : (uint64_t)amount.value;
    return REMAT_OK;
}

remat_status train_replace_profile(train *t, json_t *document, remat_profile *profile)
{
    json_decref(t->document);
    remat_profile_free(t->profile);
    t->document = document;
    t->profile = profile;
    remat_status status = remat_store_all_peak(profile, &t->store_all, &t->error);
    return status || !t->options->budget ? status : read_budget(t);
}

static remat_status read_profile(train *t)
{
    json_t *document = NULL;
    remat_profile *profile = NULL;
    remat_status status = file_read_json(t->options->profile, &document, &t->error);
    if (!status)
        status = remat_profile_decode(document, "", &profile, &t->error);
    if (!status)
        status = check_profile(t, profile);
    if (!status) {
        t->measured = true;
        return train_replace_profile(t, document, profile);
    }
    json_decref(document);
    remat_profile_free(profile);
    return status;
}

static void on_progress(void *data, double fraction)
{
    progress_draw(data, "measuring", fraction);
}

static remat_status measure(train *t)
{
    struct progress bar;
    json_t *document = NULL;
    remat_profile *profile = NULL;
    const training_settings settings = {.seed = (uint64_t)t->options->seed, .text = &t->text};
    const bool exact = t->options->exact;
    node_times *times = calloc(t->net.n_nodes, sizeof *times);
    uint32_t *first = calloc(t->net.n_nodes, sizeof *first); /* implementation of each: 0 */
    if (!times || !first) {
        free(times);
        free(first);
        return remat_fail_memory(&t->error);
    }
    progress_begin(&bar, t->show_progress, false);
    uint64_t budget = t->budget > 0 ? t->budget : 2 * t->store_all;
    remat_status status = training_measure(&t->model, budget, t->options->rounds, exact, &settings,
                                           on_progress, &bar, times, &t->error);
    progress_end(&bar);
    if (!status)
        status = training_profile(&t->net, &t->backend, times, exact ? first : NULL, &document,
                                  &profile, &t->error);
    t->measured = !status;
    if (!status)
        status = train_replace_profile(t, document, profile);
    free(times);
    free(first);
    return status;
}

/* ---- everything ---- */

/* A preset's name, a bandwidth, or what is measured here. */
static remat_status read_link(train *t)
{
    const char *text = t->options->link;
    char measured[32];
    remat_link link;
    if (strcmp(text, "measured") == 0) {
        double rate = 0;
        remat_status status = training_measure_link(&t->backend, &rate, &t->error);
        if (status)
            return status;
        snprintf(measured, sizeof measured, "%.4gGB/s", rate / 1e9);
        text = measured;
    }
    const bool preset = !strchr(text, '/');
    t->link = json_pack("{s:s}", preset ? "preset" : "bandwidth", text);
    if (!t->link)
        return remat_fail_memory(&t->error);
    remat_status status = remat_link_decode(t->link, t->profile, &link, &t->error);
    if (!status || !preset)
        return status;
    const remat_error reason = t->error;
    return remat_fail(&t->error, status, "link",
                      "%.600s; --link may also be measured, or a bandwidth such as 24GB/s",
                      reason.message);
}

remat_status train_describe(train *t)
{
    const train_options *o = t->options;
    json_t *document = NULL;
    remat_profile *profile = NULL;
    remat_status status = REMAT_OK;
    if (!o->local && !o->schedule && !o->profile_only && !o->plan)
        status = train_can_ask(t);
    if (!status)
        status = network_build(o->model, &o->settings, &t->net, &t->error);
    if (!status)
        status = backend_find(o->backend, o->threads, &t->backend, &t->error);
    if (!status)
        status = training_profile(&t->net, &t->backend, NULL, NULL, &document, &profile, &t->error);
    if (!status)
        status = train_replace_profile(t, document, profile);
    if (!status && o->link)
        status = read_link(t);
    if (!status && o->data)
        status = read_text(t);
    return status;
}

remat_status train_prepare(train *t)
{
    remat_status status = train_describe(t);
    if (status)
        return status;
    t->backend.describe(t->device, sizeof t->device);
    status = model_init(&t->model, &t->net, &t->backend, &t->error);
    if (!status && t->options->profile)
        return read_profile(t);
    return status || t->options->schedule ? status : measure(t);
}

void train_clear(train *t)
{
    model_clear(&t->model);
    net_clear(&t->net);
    free(t->text.bytes);
    json_decref(t->document);
    json_decref(t->link);
    remat_profile_free(t->profile);
    train_disconnect(t);
    if (t->backend.close)
        t->backend.close();
}
