#include "host/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

/* Reads up to two numbers of a file, of which "max" is none. Returns how many. */
static int read_numbers(const char *path, double numbers[2])
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int n = fscanf(file, "%lf %lf", &numbers[0], &numbers[1]);
    fclose(file);
    return n < 0 ? 0 : n;
}

/* The least that a file says in the group of that path and all above it; most if none does. */
typedef double group_reader(const char *folder);

static double least(const char *mount, char *group, group_reader *read, double most)
{
    for (;;) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        double value = read(folder);
        most = value > 0 && value < most ? value : most;
        char *slash = strrchr(group, '/');
        if (!slash)
            return most;
        *slash = '\0';
    }
}

/* cpu.max is "200000 100000", microseconds of each period, in version 2; two files in version 1. */
static double cores_of(const char *folder)
{
    char path[4200];
    double numbers[2], period[2];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_numbers(path, numbers) == 2)
        return numbers[0] / numbers[1];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (read_numbers(path, numbers) < 1 || numbers[0] <= 0)
        return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return read_numbers(path, period) < 1 || period[0] <= 0 ? 0 : numbers[0] / period[0];
}

static double memory_of(const char *folder)
{
    char path[4200];
    double numbers[2];
    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (read_numbers(path, numbers) == 1)
        return numbers[0];
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    return read_numbers(path, numbers) == 1 ? numbers[0] : 0;
}

/* Whether a comma-separated list of controllers holds one. */
static bool controls(const char *list, const char *controller)
{
    size_t length = strlen(controller);
    for (const char *s = list; *s; s += strcspn(s, ",")) {
        s += strspn(s, ",");
        if (strcspn(s, ",") == length && strncmp(s, controller, length) == 0)
            return true;
    }
    return false;
}

/* Lines of /proc/self/cgroup: "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1. */
static double allowed(const char *controller, group_reader *read, double most)
{
    char line[4096], mount[64];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *list++ = *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        bool unified = *list == '\0';
        if (!unified && !controls(list, controller))
            continue;
        snprintf(mount, sizeof mount, "/sys/fs/cgroup%s%s", unified ? "" : "/",
                 unified ? "" : controller);
        most = least(mount, group, read, most);
    }
    if (file)
        fclose(file);
    return most;
}

unsigned machine_cores(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : get_nprocs();
    double most = allowed("cpu", cores_of, cores);
    return most < 1 ? 1 : (unsigned)most;
}

uint64_t machine_memory(void)
{
    struct sysinfo info;
    double most = sysinfo(&info) == 0 ? (double)info.totalram * info.mem_unit : 0x1p32;
    return (uint64_t)allowed("memory", memory_of, most);
}

int64_t machine_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void machine_keep_writing(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

void machine_keep_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0) /* the least free number is this one */
            (void)!open("/dev/full", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}
