/* Reading JSON objects by a list of rules, with errors that name the field. Private to api/. */
#ifndef REMAT_API_FIELDS_H
#define REMAT_API_FIELDS_H

#include "api.h"

#include "remat/bytes.h"

typedef enum field_type {
    FIELD_STRING,  /* const char ** */
    FIELD_NUMBER,  /* remat_number * */
    FIELD_BOOLEAN, /* bool * */
    FIELD_ARRAY,   /* const json_t ** */
    FIELD_OBJECT,  /* const json_t ** */
    FIELD_ANY      /* const json_t ** */
} field_type;

typedef struct field_rule {
    const char *name;
    field_type type;
    bool required;
    void *target; /* untouched when the field is absent */
} field_rule;

/* Reads an object by its rules. path ("" or "nodes[3].") stands before the names in errors. */
remat_status api_read(const json_t *json, const char *path, const field_rule *rules, size_t n_rules,
                      remat_error *error);

/* The strings of an array, borrowed; allocated array of *ret_n (free it). json NULL: none. */
remat_status api_strings(const json_t *json, const char *field, const char ***ret_strings,
                         size_t *ret_n, remat_error *error);

/* A whole number; where the field is absent *ret_value stays. */
/* Peak of storing everything with so many micro-batches in flight; with one it is known. */
remat_status api_store_all(const remat_profile *profile, uint32_t in_flight,
                           uint64_t store_all_peak, uint64_t *ret_peak, remat_error *error);

remat_status api_whole(const remat_number *number, const char *field, uint64_t least, uint64_t most,
                       uint64_t *ret_value, remat_error *error);

/* A power of two up to REMAT_MAX_ALIGNMENT; where the field is absent *ret_alignment stays. */
remat_status api_alignment(const remat_number *number, const char *field, uint64_t *ret_alignment,
                           remat_error *error);

/* "quick", .. */
remat_status api_effort(const char *name, remat_effort *ret_effort, remat_error *error);

/* "wait" of requests that may become jobs: seconds, 30 where it is absent. */
remat_status api_wait(const remat_number *number, double *ret_seconds, remat_error *error);

/* Of a schedule of another machine its list: the caller's to clear. */
remat_status api_steps_of_schedule(const json_t *schedule, const remat_machine **ret_machine,
                                   remat_steps *ret_steps, remat_error *error);
json_t *api_steps_encode(const remat_machine *machine, const remat_steps *steps);
/* For each branch, the nodes that its steps run. */
json_t *api_branches_encode(const remat_machine_facts *facts);

/* Appends the compact text of a JSON value; false: out of memory. */
bool api_text_put(remat_buffer *text, const json_t *json);

/* One item of the lists of an answer. NULL: out of memory. */
json_t *api_operation_encode(const remat_operation *operation, const remat_profile *profile);
json_t *api_allocation_encode(const remat_allocation *allocation);

/* "1.5 GiB" or "60%": a number, spaces, a unit (a pointer into text). Plain decimal notation
 * only. */
bool api_split_amount(const char *text, double *ret_number, const char **ret_unit);

/* Number of bytes in the unit that text names, 0 if it names none. */
double api_amount_unit(const char *text);

/* "12GB/s" or "96Gbit/s": the number, and the bytes of its unit (0: none that is known, or a
 * lower-case b, which is a bit to some and a byte to others). False: it is no rate. */
bool api_split_rate(const char *text, double *ret_number, double *ret_unit);

#endif
