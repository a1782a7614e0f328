/* A library to preload into rematd: while the file named by REMAT_READ_ONLY_FILE is there, files
 * are as on a file system that the kernel has made read-only under their open descriptors, as ext4
 * does after an error (errors=remount-ro). A mount(2) with open files will not. Built and used by
 * tests/integration/test_worse_days.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int refused(void)
{
    if (access(getenv("REMAT_READ_ONLY_FILE"), F_OK) != 0)
        return 0;
    errno = EROFS;
    return 1;
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return refused() ? -1 : real(file, data, size, offset);
}

int ftruncate64(int file, off64_t size)
{
    int (*real)(int, off64_t) = dlsym(RTLD_NEXT, "ftruncate64");
    return refused() ? -1 : real(file, size);
}

int ftruncate(int file, off_t size)
{
    return ftruncate64(file, size);
}

int posix_fallocate64(int file, off64_t offset, off64_t size)
{
    int (*real)(int, off64_t, off64_t) = dlsym(RTLD_NEXT, "posix_fallocate64");
    return refused() ? EROFS : real(file, offset, size);
}

int posix_fallocate(int file, off_t offset, off_t size)
{
    return posix_fallocate64(file, offset, size);
}
