/* remat, the command. Private to clients/cli.
 *
 * A command is one function that gets the parsed command line and returns the exit code. Answers go
 * to stdout, everything else to stderr. */
#ifndef REMAT_CLI_H
#define REMAT_CLI_H

#include "remat_client.h"
#include "terminal.h"

/* Which commands take an option. */
enum {
    PROFILE = 1,
    SOLVE = 2,
    CURVE = 4,
    SHOW = 8,
    SIMULATE = 16,
    JOBS = 32,
    SOLVERS = 64,
    VERSION = 128,
    SNAPSHOTS = 256,
    GLOBAL = 512,
    PLAN = 1024,
    CALIBRATE = 2048,
    LAYOUT = 4096,
    TRACE = 8192,
    MCP = 16384,
};

struct cli {
    const char *command; /* "solve" */
    unsigned flag;       /* of that command, as in the table of options */
    char **arguments;    /* what is left beside options */
    int n_arguments;

    /* Options; NULL, 0 and false where they are not given. */
    const char *server, *output, *budget, *reserved, *solver, *profile, *name, *cursor;
    json_t *link;   /* object, owned */
    json_t *layout; /* owned */
    const char *effort, *capacity;
    json_t *solver_options; /* object, owned */
    json_t *budgets;        /* array, owned */
    unsigned points, limit, in_flight;
    double wait, timeout; /* seconds; wait is INFINITY by default */
    bool given[96];       /* options, by their place in the table */
    const char *device, *measured_on;
    json_t *plan;       /* members of a plan's request, owned */
    char joined[2][32]; /* amounts whose unit was an argument of its own */
    bool whole_device;
    char whole[24]; /* what that reserves */
    bool json, local, all, ascii, help, version;

    /* The terminal. */
    bool colour;        /* stdout is a terminal and NO_COLOR is not set */
    bool show_progress; /* stderr is a terminal */
    unsigned width;     /* columns */

    remat_client *client; /* made by cli_connect */
    char request_id[40];  /* the same in all requests: this process asks once */
    bool bad_usage;       /* the error is one of the command line */
    remat_error error;    /* of the call that failed */
};

/* ---- commands ---- */

int command_profile(struct cli *cli);
int command_solve(struct cli *cli);
int command_plan(struct cli *cli);
int command_calibrate(struct cli *cli);
int command_curve(struct cli *cli);
int command_show(struct cli *cli);
int command_trace(struct cli *cli);
int command_mcp(struct cli *cli);
int command_simulate(struct cli *cli);
int command_snapshots(struct cli *cli);
int command_layout(struct cli *cli);
int command_jobs(struct cli *cli);
int command_solvers(struct cli *cli);

/* The text of --help; NULL: of remat itself. */
const char *help_text(const char *command);

/* ---- options.c ---- */

/* Parses the options of cli->command and leaves the other arguments. CLI_OK, or CLI_USAGE (already
 * said). */
int options_parse(struct cli *cli, int argc, char **argv);
/* Refuses options that were given but do nothing beside that, by their names with spaces between.
 * CLI_OK or CLI_USAGE. */
int options_refuse(struct cli *cli, const char *list, const char *beside);
/* Those that may stand before the command. Returns the index of the command in argv, or -1 for
 * wrong usage. */
int options_parse_global(struct cli *cli, int argc, char **argv);

/* ---- report.c ---- */

/* Says cli->error on stderr and returns the exit code that goes with it. */
int cli_failed(struct cli *cli);

/* Says what is wrong with the command line. CLI_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage(struct cli *cli, const char *format, ...);

/* Says that a word is none of some, and which was meant. CLI_USAGE. */
int cli_unknown(struct cli *cli, const char *word, const char *const *words, size_t n,
                const char *what);

/* Writes the JSON text to -o FILE, or with --json to stdout. *ret_done: nothing is left to print.
 * Numbers are exact, in as few digits as that takes. */
remat_status cli_write_json(struct cli *cli, const char *text, bool *ret_done);
remat_status cli_write_json_value(struct cli *cli, const json_t *json, bool *ret_done);

/* Says which job is under way: what --wait was given for. The exit code. */
int cli_waiting(struct cli *cli, const remat_client_answer *answer);

/* The client, made at the first call. */
remat_status cli_connect(struct cli *cli);

/* What a call of the client came to, once its answer has the members that the command needs: format
 * and names are those of json_unpack, types alone ("{s:s, s:F}"). Else the answer is cleared and
 * the failure is REMAT_IO: whatever spoke is no rematd, or not one of this version. */
remat_status cli_expect(struct cli *cli, remat_status status, remat_client_answer *answer,
                        const char *format, ...);
/* REMAT_IO: the server sent a thing that is wrong, and why. */
remat_status cli_fail_server(struct cli *cli, const char *thing, const char *why);
/* The same of a list, the answer's member or (NULL) the answer itself, and of each of its items. */
remat_status cli_expect_list(struct cli *cli, remat_status status, remat_client_answer *answer,
                             const char *list, const char *format, const char *member);

/* ---- subject.c ---- */

/* A PROFILE argument: a file, "-" or an id. */
struct subject {
    json_t *document;        /* NULL: only the id is known */
    remat_profile *profile;  /* NULL: the same */
    uint64_t store_all_peak; /* of profile */
    char id[REMAT_ID_SIZE];
};

remat_status subject_load(const char *argument, struct subject *ret_subject, remat_error *error);
void subject_clear(struct subject *subject); /* accepts {0} */
/* The server's profile of that id, and no other. */
remat_status subject_fetch(struct cli *cli, const char *id, struct subject *ret_subject);

/* The question that the options ask, without its subject; profile_id in it where only the id is
 * known. */
json_t *subject_question(const struct cli *cli, const struct subject *subject);

/* The time unit of the profile's times: asked of the server where only the id is known. "" if that
 * fails. ret_unit has room for 8. */
void subject_time_unit(struct cli *cli, const struct subject *subject, char ret_unit[8]);

/* The same, and the argument may be a profile's name or the beginning of its id: the server is
 * asked for it. */
remat_status subject_find(struct cli *cli, const char *argument, struct subject *ret_subject);

/* The machine whose schedules are asked for, with budgets in units of its own; NULL: in bytes. */
const remat_machine *subject_machine(const struct cli *cli);

/* Whether the amounts that were given can be meant for the profile: a bare number of some hundred
 * bytes is most likely a percentage or lacks its unit. CLI_OK or CLI_USAGE. */
int subject_check_amounts(struct cli *cli, const struct subject *subject);

/* ---- ask.c ---- */

/* Prints an answer: as JSON, and as the text it came as (NULL: it was made here). cache:
 * X-Remat-Cache. An exit code. */
typedef int cli_print(struct cli *cli, const struct subject *subject, const json_t *answer,
                      const char *text, const char *cache);

/* Asks what the options ask about the subject, and prints the answer. An exit code. */
int ask_question(struct cli *cli, const struct subject *subject, remat_request_kind kind,
                 cli_print *print);

/* ---- find.c ---- */

/* What people call a thing: its name (profiles), its id or the beginning of it. ret_id: the whole
 * one. REMAT_NOT_FOUND, and REMAT_INVALID where several are called so. */
remat_status find_profile(struct cli *cli, const char *text, char ret_id[REMAT_ID_SIZE]);
remat_status find_schedule(struct cli *cli, const char *text, char ret_id[REMAT_ID_SIZE]);
remat_status find_job(struct cli *cli, const char *text, char ret_id[REMAT_ID_SIZE]);

/* ---- interrupt.c ---- */

/* From now on Ctrl-C ends calls of the client by REMAT_CANCELLED; a second one ends the process. */
void interrupt_catch(void);
bool interrupt_came(void *data);

/* The question was asked and then interrupted: cancels its job, unless others asked for it too, and
 * says so. subject: whose profile the question does not name; NULL: it is within. The exit code. */
int interrupt_cancel(struct cli *cli, const char *path, const json_t *question,
                     const struct subject *subject);

/* ---- plan.c ---- */

/* An option of a plan becomes a member of its request; name is one of those in options.c. */
int plan_take(struct cli *cli, const char *name, const char *value);
/* Sets cli->reserved to what is not for activations on a device. An exit code. */
int plan_whole_device(struct cli *cli, const struct subject *subject);

/* ---- plan_print.c ---- */

/* Prints the answer of a plan, or writes it as --json and --output say: text as it came, or of NULL
 * the answer's. cache: "hit", and it says that it was remembered. An exit code. */
int plan_print(struct cli *cli, const json_t *answer, const char *text, const char *cache);

/* ---- import.c ---- */

/* The profile of a graph in another format, told by its text, which is written over. name: where
 * the file gives none. */
remat_status import_profile(char *text, const char *name, json_t **ret_profile, remat_error *error);

/* ---- local.c ---- */

/* Why a schedule is as it is, by a replay here; NULL where that fails. */
json_t *local_explanation(const struct subject *subject, const json_t *schedule);

/* The request of a question, decoded, with its subject in it. The JSON is what it borrows. */
remat_status local_request(const struct subject *subject, const json_t *question,
                           remat_request_kind kind, json_t **ret_json, remat_request *ret_request,
                           remat_error *error);

/* What the server would answer, computed in this process. question: as sent, without subject. */
remat_status local_answer(struct cli *cli, const struct subject *subject, const json_t *question,
                          remat_request_kind kind, json_t **ret_answer, remat_error *error);

/* ---- summary.c ---- */

/* The numbers of a schedule. cache: X-Remat-Cache, "" if there is none. */
/* How many micro-batches an answer is about, where there are several. */
void summary_in_flight(const struct cli *cli, const json_t *answer);
void summary_print(const struct cli *cli, const json_t *schedule, const char *cache);
/* The paragraph of an explanation, or nothing where it is NULL. */
void explanation_print(const struct cli *cli, const json_t *explanation);
void summary_line(const struct cli *cli, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- trace.c ---- */

/* One operation as it is shown. */
typedef struct trace_step {
    char letter;
    bool saved, input;
    bool again;              /* an F or A of a node that ran before */
    const char *alternative; /* of an F, A or B: the implementation; "" for the node's own */
    bool other;              /* of another machine: S copies, D and b (Db) drop, T is the turn */
    uint32_t index, version;
    const char *id; /* of node, or "" */
    double start, end;
    double during, after; /* bytes */
} trace_step;

typedef struct trace {
    trace_step *steps;
    size_t length;
    bool timed;                    /* start .. after are known */
    double makespan, budget, peak; /* budget NAN: none */
    const char *unit;
} trace;

/* Reads a schedule and its timeline (or NULL), or a timeline alone as schedule; the trace borrows
 * their strings. */
remat_status trace_read(const json_t *schedule, const json_t *timeline, trace *ret_trace,
                        remat_error *error);
void trace_clear(trace *trace);

void operations_print(const struct cli *cli, const trace *trace); /* operations.c */
void timeline_print(const struct cli *cli, const trace *trace);   /* timeline.c */

/* ---- draw.c ---- */

enum { PAINT_NONE, PAINT_BLUE, PAINT_YELLOW, PAINT_GREEN, PAINT_RED, PAINT_DIM, PAINT_BOLD };

/* A plot of one bar per column. */
struct plot {
    const double *values;       /* >= 0; NAN: nothing known here */
    const unsigned char *paint; /* one per column, or NULL */
    size_t width;               /* columns */
    unsigned height;            /* rows */
    double top;                 /* value at the upper edge, > 0 */
    double line;                /* a horizontal line at this value; NAN: none */
    const char *line_label;
    const char *(*label)(double value, char text[TEXT_SIZE]); /* of the axis */
    const char *left, *right;                                 /* under the two ends of the axis */
    const char *strip; /* one letter per column under the bars, or NULL */
};

#define PLOT_MARGIN 12 /* columns left of the bars */

void draw_plot(const struct cli *cli, const struct plot *plot);

/* The escape sequence of a paint, "" without colour. */
const char *draw_paint(const struct cli *cli, unsigned paint);
const char *draw_plain(const struct cli *cli);

#endif
