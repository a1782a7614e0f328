/* A library to preload into rematd: the journal named by REMAT_POWER_JOURNAL tells what a failing
 * power could still undo. A write to a file is there as "W path offset size" and the bytes that it
 * covered, a flush as "S path"; the writes after a file's last flush are what a disk may have lost.
 * Built and used by tests/integration/test_crashes.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;

/* A line, and what follows it, as one write: a kill leaves it whole or, the last one, cut short. */
static void note(char kind, int file, const char *bytes, size_t size, off64_t offset)
{
    char link[64], path[1024];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    char *record = malloc(size + sizeof path + 64);
    if (length < 0 || !record)
        abort();
    path[length] = '\0';
    int head = sprintf(record, "%c %lld %zu %s\n", kind, (long long)offset, size, path);
    if (size > 0)
        memcpy(record + head, bytes, size);
    if (journal < 0)
        journal =
            open(getenv("REMAT_POWER_JOURNAL"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (write(journal, record, (size_t)head + size) != (ssize_t)(head + size))
        abort();
    free(record);
}

/* The record goes first: a kill between the two leaves a write that is undone without having been.
 */
ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    pthread_mutex_lock(&lock);
    char *covered = calloc(1, size);
    if (!covered || pread64(file, covered, size, offset) < 0)
        abort();
    note('W', file, covered, size, offset);
    ssize_t written = real(file, data, size, offset);
    pthread_mutex_unlock(&lock);
    free(covered);
    return written;
}

static int flush(const char *name, int file)
{
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    pthread_mutex_lock(&lock);
    int status = real(file);
    if (status == 0)
        note('S', file, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return status;
}

int fdatasync(int file)
{
    return flush("fdatasync", file);
}

int fsync(int file)
{
    return flush("fsync", file);
}
