/* remat: one command with subcommands. */
#include "cli.h"
#include "host/machine.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int command_version(struct cli *cli)
{
    if (cli->n_arguments > 0)
        return cli_usage(cli, "version takes no argument");
    printf(cli->json ? "{\"version\":\"%s\"}\n" : "remat %s\n", REMAT_VERSION);
    return CLI_OK;
}

static const struct {
    const char *name;
    unsigned flag;
    int (*run)(struct cli *cli);
} commands[] = {{"profile", PROFILE, command_profile},
                {"solve", SOLVE, command_solve},
                {"curve", CURVE, command_curve},
                {"show", SHOW, command_show},
                {"trace", TRACE, command_trace},
                {"simulate", SIMULATE, command_simulate},
                {"jobs", JOBS, command_jobs},
                {"plan", PLAN, command_plan},
                {"calibrate", CALIBRATE, command_calibrate},
                {"snapshots", SNAPSHOTS, command_snapshots},
                {"layout", LAYOUT, command_layout},
                {"solvers", SOLVERS, command_solvers},
                {"mcp", MCP, command_mcp},
                {"version", VERSION, command_version}};

static void look_at_terminal(struct cli *cli)
{
    struct winsize size;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool terminal = isatty(STDOUT_FILENO) != 0;
    bool dumb = !term || strcmp(term, "dumb") == 0;
    cli->colour = terminal && !dumb && !(no_color && no_color[0]);
    cli->show_progress = isatty(STDERR_FILENO) != 0 && !dumb;
    cli->width = 80;
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        cli->width = size.ws_col < 200 ? size.ws_col : 200;
}

static int no_command(struct cli *cli, const char *word)
{
    enum { N = sizeof commands / sizeof *commands };
    const char *names[N];
    for (size_t i = 0; i < N; i++)
        names[i] = commands[i].name;
    return cli_unknown(cli, word, names, N, "there is no command");
}

static int run_command(struct cli *cli, int argc, char **argv)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, argv[0]) != 0)
            continue;
        cli->command = commands[i].name;
        cli->flag = commands[i].flag;
        int code = options_parse(cli, argc, argv);
        if (code)
            return code;
        if (cli->output && !cli->help && file_check_write(cli->output, &cli->error))
            return cli_failed(cli);
        if (!cli->help)
            return commands[i].run(cli);
        fputs(help_text(cli->command), stdout);
        return CLI_OK;
    }
    return no_command(cli, argv[0]);
}

static int run(struct cli *cli, int argc, char **argv)
{
    int first = options_parse_global(cli, argc, argv);
    if (first < 0)
        return CLI_USAGE;
    if (cli->version)
        return command_version(cli);
    if (!cli->help && first == argc)
        return cli_usage(cli, "a command is missing");
    bool asks_help = first < argc && strcmp(argv[first], "help") == 0;
    if (!cli->help && !asks_help)
        return run_command(cli, argc - first, argv + first);
    first += asks_help;
    const char *text = first < argc ? help_text(argv[first]) : help_text(NULL);
    if (!text)
        return no_command(cli, argv[first]);
    if (asks_help && argc - first > 1)
        return cli_usage(cli, "help takes one command");
    fputs(text, stdout);
    return CLI_OK;
}

/* Whoever read has what it wanted, as head does: nothing to say. */
static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP));
}

int main(int argc, char **argv)
{
    struct cli cli = {.wait = INFINITY};
    machine_keep_streams();
    remat_json_watch_memory();
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of writing, not a death */
    look_at_terminal(&cli);
    int code = run(&cli, argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        remat_fail(&cli.error, REMAT_INTERNAL, NULL, "cannot write the output: %s",
                   strerror(errno));
        if (code == CLI_OK)
            code = reader_left() ? CLI_READER_LEFT : cli_failed(&cli);
    }
    remat_client_free(cli.client);
    json_decref(cli.solver_options);
    json_decref(cli.budgets);
    json_decref(cli.link);
    json_decref(cli.layout);
    json_decref(cli.plan);
    return code;
}
