/* What the files of a profile's check share: profile.c the whole, profile_nodes.c its nodes. */
#ifndef REMAT_MODEL_PROFILE_PRIVATE_H
#define REMAT_MODEL_PROFILE_PRIVATE_H

#include "model/arena.h"
#include "remat/profile.h"

/* The public structure is the first member of what is really allocated. */
typedef struct model_owned_profile {
    remat_profile profile;
    model_arena arena;
} model_owned_profile;

typedef struct model_id {
    const char *id;
    uint32_t index;
} model_id;

/* What the checks share. */
typedef struct model_builder {
    const remat_profile_spec *spec;
    model_owned_profile *owned;
    remat_node *nodes;
    remat_input *inputs;
    remat_state *states;
    remat_result *results; /* further results of nodes */
    bool joint;
    model_id *values, *state_ids;             /* sorted by id */
    uint32_t *value_stamp, *state_stamp, tag; /* which list an index was last put in */
    uint32_t n_ids, n_values, n_results;      /* nodes and inputs; those and further results */
    double bytes_total;                       /* exact below 2^53, and past it still past it */
    double time_total;
    remat_error *error;
} model_builder;

/* Where a number stands: "nodes[3]", the id there (NULL if unknown) and the field's own name. */
typedef struct model_place {
    const char *path, *id, *name;
} model_place;

/* ---- profile.c ---- */

/* Printable UTF-8 of a length that an id may have. */
remat_status model_check_text(const char *text, const char *field, remat_error *error);
/* By id; one that stands twice is refused. */
/* Of two that are the same the first, whose twin is next; else NULL. */
const model_id *model_sort_ids(model_id *entries, size_t n);
/* NULL: there is none. */
const model_id *model_find_id(const model_id *entries, size_t n, const char *id);
/* The node of a text "id:k", and k; NULL if it is no such text or there is no such node. */
const model_id *model_find_numbered(const model_builder *b, const char *text, uint32_t *ret_number);
/* The node, or past the nodes the graph input, that a text names, and which of its results. */
remat_status model_take_value(const model_builder *b, const char *field, const char *owner,
                              const char *text, uint32_t *ret_index, uint32_t *ret_number);

/* ---- profile_nodes.c ---- */

/* A whole number, fallback where none is given; counts in bytes_total. */
remat_status model_take_bytes(model_builder *b, model_place at, remat_number number,
                              uint64_t fallback, bool required, uint64_t *ret_bytes);
/* In a joint graph a number of forward ones. */
remat_status model_refuse_given(const model_builder *b, model_place at, remat_number number);
/* Appends index to list unless stamp says that this list has it. */
void model_add_once(uint32_t *list, uint32_t *n, uint32_t index, uint32_t *stamp, uint32_t tag);
/* Of a result of a node or a graph input. */
uint32_t model_value_of(const model_builder *b, uint32_t index, uint32_t number);
/* Node v with all that its specification says; those before it have been taken. */
remat_status model_take_node(model_builder *b, size_t v);

#endif
