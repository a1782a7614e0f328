/* remat mcp: the everyday commands as tools of the Model Context Protocol, on standard input and
 * output: one JSON-RPC message a line. Each call runs this program again as a command, so that what
 * it does, prints and refuses is the command's. Calls are answered one after another. */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 40, MOST_MEMBERS = 12 /* the last has no name */, MOST_OUTPUT = 64 << 20 };
enum {
    PARSE_ERROR = -32700,
    INVALID_REQUEST = -32600,
    NO_METHOD = -32601,
    INVALID_PARAMS = -32602
};

/* ---- the tools ---- */

/* An argument of a tool: an option of the command, a file (which must be a regular one), or the
 * command's own argument; a schema of one type. */
typedef struct member {
    const char *name, *type, *text;
    bool required, file, place;
} member;

static const struct tool {
    const char *name, *text;
    const char *words; /* of the command, with spaces between */
    member members[MOST_MEMBERS];
} tools[] = {
    {"profile_check",
     "Checks a profile (remat-profile/1: the graph of a training step with times and bytes) and "
     "tells its numbers: nodes, peak and time of storing everything.",
     "profile check --json",
     {{"profile", "string", "Path of the profile's file.", true, true, true}}},
    {"solve",
     "The fastest verified schedule of one training step within a memory budget: makespan, "
     "overhead, "
     "peak, lower bound, and why it is so. Its operations go to the file output, if one is named.",
     "solve --local --json",
     {{"profile", "string", "Path of the profile's file.", true, true, true},
      {"budget", "string", "Memory: 6GiB, or 60% of storing everything.", true, false, false},
      {"solver", "string", "Instead of the best one.", false, false, false},
      {"effort", "string", "quick (default) or thorough.", false, false, false},
      {"link", "string", "The way to the host, for offloading: pcie4-x16, 12GB/s.", false, false,
       false},
      {"reserved", "string", "Memory for other things, subtracted.", false, false, false},
      {"output", "string", "File to write the whole schedule to.", false, false, false}}},
    {"explain",
     "Why a schedule is as it is: what is recomputed, what makes the peak, what more memory would "
     "save; its memory over time and its operations.",
     "show --ascii",
     {{"schedule", "string", "Path of a schedule that solve wrote.", true, true, true},
      {"profile", "string", "Path of the profile's file.", true, true, false}}},
    {"plan",
     "Does a model train on a device, how fast, with how large a batch? From shapes alone.",
     "plan --json",
     {{"model", "string", "gpt2-xl, llama3-8b, resnet50, ..: a wrong name is answered by the list.",
       true, false, true},
      {"batch", "integer", "Samples of a step.", true, false, false},
      {"device", "string", "a100-80gb, h100, rtx4090, t4, cpu, ..", true, false, false},
      {"optimizer", "string", "adamw (default), adam8bit, sgd, ..", false, false, false},
      {"precision", "string", "bfloat16, float32, ..", false, false, false},
      {"fp8", "string", "Products in 8 bits: torchao, torchao-gather, te, te-weights.", false,
       false, false},
      {"lora", "integer", "Rank of adapters beside frozen matrices.", false, false, false},
      {"lora-base", "string", "Of adapters: frozen, nf4 (QLoRA), ..", false, false, false},
      {"sequence", "integer", "Tokens; as published by default.", false, false, false}}},
    {"curve",
     "What less memory costs: the makespan over budgets from the least to storing everything.",
     "curve --local --json",
     {{"profile", "string", "Path of the profile's file.", true, true, true},
      {"points", "integer", "So many budgets (default 20).", false, false, false},
      {"budgets", "string", "These budgets: 40%,60%,6GiB.", false, false, false},
      {"solver", "string", "Instead of the best one at each budget.", false, false, false}}},
};
enum { TOOLS = sizeof tools / sizeof *tools };

static json_t *list_tools(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < TOOLS; i++) {
        json_t *properties = json_object(), *required = json_array();
        for (const member *m = tools[i].members; m->name; m++) {
            remat_json_set(&properties, m->name,
                           json_pack("{s:s, s:s}", "type", m->type, "description", m->text));
            if (m->required)
                remat_json_append(&required, json_string(m->name));
        }
        remat_json_append(&list,
                          json_pack("{s:s, s:s, s:{s:s, s:o, s:o, s:b}}", "name", tools[i].name,
                                    "description", tools[i].text, "inputSchema", "type", "object",
                                    "properties", properties, "required", required,
                                    "additionalProperties", 0));
    }
    return json_pack("{s:o}", "tools", list);
}

/* ---- running one ---- */

/* The words of a command; those that were made are owned. */
typedef struct command_line {
    char *words[MOST_WORDS + 1];
    size_t n;
} command_line;

static void add_word(command_line *c, const char *format, const char *a, const char *b)
{
    char *word = NULL;
    if (c->n < MOST_WORDS && asprintf(&word, format, a, b) >= 0)
        c->words[c->n++] = word;
}

static void clear_words(command_line *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->words[i]);
}

/* Why the value will not do for the member; NULL: it will. Whatever could be taken for a path is no
 * device, pipe or folder. */
static const char *fault_of(const member *m, const json_t *value)
{
    struct stat found;
    const bool text = strcmp(m->type, "string") == 0;
    if (text ? !json_is_string(value) : !json_is_integer(value))
        return text ? "must be a string" : "must be an integer";
    if (!text)
        return NULL;
    if (stat(json_string_value(value), &found) != 0)
        return m->file ? "names no file" : NULL;
    return S_ISREG(found.st_mode) ? NULL : "is no regular file";
}

/* The command that the call comes to; false: message says what is wrong with its arguments. */
static bool make_command(const struct tool *tool, const json_t *arguments, command_line *c,
                         char message[160])
{
    char words[64], *rest = words, number[24];
    const char *place = NULL, *key;
    json_t *value;
    snprintf(words, sizeof words, "%s", tool->words);
    add_word(c, "%s%s", "remat", "");
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        add_word(c, "%s%s", word, "");
    json_object_foreach((json_t *)arguments, key, value)
    {
        const member *m = tool->members;
        while (m->name && strcmp(m->name, key) != 0)
            m++;
        const char *fault = m->name ? fault_of(m, value) : "is not known";
        if (fault) {
            snprintf(message, 160, "%.60s %s", key, fault);
            return false;
        }
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        if (m->place)
            place = json_string_value(value);
        else
            add_word(c, strlen(key) == 1 ? "-%s=%s" : "--%s=%s", key,
                     json_is_string(value) ? json_string_value(value) : number);
    }
    for (const member *m = tool->members; m->name; m++)
        if (m->required && !json_object_get(arguments, m->name)) {
            snprintf(message, 160, "%s is missing", m->name);
            return false;
        }
    add_word(c, "%s%s", "--", "");
    add_word(c, "%s%s", place ? place : "", "");
    return true;
}

/* Both outputs of the command into one text, owned. Returns its exit code; -1: it could not run. */
static int run(const command_line *c, char **ret_text)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0 &&
            dup2(ends[1], STDERR_FILENO) >= 0)
            execv("/proc/self/exe", c->words);
        _exit(127);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    char *text = NULL;
    size_t size = 0;
    FILE *kept = stream ? open_memstream(&text, &size) : NULL;
    char piece[65536];
    for (size_t n, all = 0;
         kept && all < MOST_OUTPUT && (n = fread(piece, 1, sizeof piece, stream)) > 0; all += n)
        fwrite(piece, 1, n, kept);
    if (kept)
        fclose(kept);
    if (stream)
        fclose(stream);
    else
        close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || !text) {
        free(text);
        return -1;
    }
    *ret_text = text;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What fills pages and helps nobody who reads them: it is in the file, if one was named. */
static char *shorten(char *text)
{
    static const char *const long_ones[] = {"operations", "allocations", "nodes", "branches"};
    json_t *json = json_loads(text, 0, NULL);
    if (!json_is_object(json) || !json_object_get(json, "operations")) {
        json_decref(json);
        return text;
    }
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++)
        json_object_del(json, long_ones[i]);
    char *shorter = remat_json_text(json);
    json_decref(json);
    if (!shorter)
        return text;
    free(text);
    return shorter;
}

static json_t *tool_answer(const char *text, bool failed)
{
    return json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text", text, "isError",
                     failed);
}

/* The answer of a solve that wrote its file is in there. */
static char *written(const json_t *arguments, char *text)
{
    const char *output = json_string_value(json_object_get(arguments, "output"));
    char *read = NULL;
    if (!output || *text || file_read_text(output, &read, NULL))
        return text;
    free(text);
    return read;
}

static json_t *call_tool(const json_t *params, const char **ret_fault)
{
    const char *name = json_get_text(params, "name");
    const json_t *arguments = json_object_get(params, "arguments");
    const struct tool *tool = tools;
    while (tool < tools + TOOLS && strcmp(tool->name, name) != 0)
        tool++;
    if (tool == tools + TOOLS || (arguments && !json_is_object(arguments))) {
        *ret_fault =
            tool == tools + TOOLS ? "there is no tool of this name" : "arguments must be an object";
        return NULL;
    }
    command_line c = {.n = 0};
    char message[160], *text = NULL;
    json_t *answer;
    if (!make_command(tool, arguments, &c, message)) {
        answer = tool_answer(message, true);
    } else {
        const int code = run(&c, &text);
        if (code == CLI_OK)
            text = shorten(written(arguments, text));
        answer = code < 0 ? tool_answer("the command could not be run", true)
                          : tool_answer(text, code != CLI_OK);
    }
    clear_words(&c);
    free(text);
    return answer;
}

/* ---- messages ---- */

static json_t *initialize(const json_t *params)
{
    static const char *const versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};
    const char *wanted = json_get_text(params, "protocolVersion"), *version = versions[0];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(versions[i], wanted) == 0)
            version = versions[i];
    return json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", "protocolVersion", version, "capabilities",
                     "tools", "serverInfo", "name", "remat", "version", REMAT_VERSION);
}

static void send_message(json_t *id, const char *kind, json_t *value)
{
    json_t *message = json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id",
                                id ? json_incref(id) : json_null(), kind, value);
    char *text = message ? remat_json_text(message) : NULL;
    if (text)
        printf("%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(message);
}

static void send_error(json_t *id, int code, const char *message)
{
    send_message(id, "error", json_pack("{s:i, s:s}", "code", code, "message", message));
}

static void answer_request(json_t *message, json_t *id)
{
    const char *method = json_get_text(message, "method"), *fault = NULL;
    const json_t *params = json_object_get(message, "params");
    json_t *result = strcmp(method, "initialize") == 0   ? initialize(params)
                     : strcmp(method, "ping") == 0       ? json_object()
                     : strcmp(method, "tools/list") == 0 ? list_tools()
                     : strcmp(method, "tools/call") == 0 ? call_tool(params, &fault)
                                                         : NULL;
    if (result)
        send_message(id, "result", result);
    else
        send_error(id, fault ? INVALID_PARAMS : NO_METHOD,
                   fault ? fault : "there is no such method");
}

/* What asks nothing, a notification, is answered by nothing; nor is an answer. */
static void take_line(const char *line)
{
    json_error_t where;
    json_t *message = json_loads(line, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    json_t *id = json_object_get(message, "id");
    const bool asks = json_is_string(id) || json_is_integer(id);
    if (!message)
        send_error(NULL, PARSE_ERROR, where.text);
    else if (!json_is_object(message) || (id && !asks) ||
             strcmp(json_get_text(message, "jsonrpc"), "2.0") != 0 ||
             (!json_is_string(json_object_get(message, "method")) &&
              !json_object_get(message, "result") && !json_object_get(message, "error")))
        send_error(asks ? id : NULL, INVALID_REQUEST, "this is no JSON-RPC 2.0 request");
    else if (asks && json_object_get(message, "method"))
        answer_request(message, id);
    json_decref(message);
}

int command_mcp(struct cli *cli)
{
    char *line = NULL;
    size_t size = 0;
    if (cli->n_arguments > 0)
        return cli_usage(cli, "mcp takes no argument");
    while (getline(&line, &size, stdin) >= 0 && !ferror(stdout))
        if (line[strspn(line, " \t\r\n")])
            take_line(line);
    free(line);
    return CLI_OK;
}
