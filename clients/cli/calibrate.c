/* remat calibrate: remat-train has the kernels. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Beside this program as it is installed, or as it is built; else where PATH says. */
static void run(char *const arguments[])
{
    static const char *const places[] = {"", "../executor/"};
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 64);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(slash + 1, 64, "%sremat-train", places[i]);
        execv(self, arguments);
    }
    execvp("remat-train", arguments);
}

int command_calibrate(struct cli *cli)
{
    if (cli->n_arguments > 0)
        return cli_usage(cli, "calibrate takes no argument");
    char *const arguments[] = {"remat-train", "--calibrate", cli->output ? "-o" : NULL,
                               (char *)cli->output, NULL};
    fflush(stdout);
    run(arguments);
    remat_fail(&cli->error, REMAT_IO, NULL, "remat-train, which measures, cannot be run: %s",
               strerror(errno));
    return cli_failed(cli);
}
