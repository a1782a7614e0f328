/* A library to preload into rematd: while the file named by REMAT_FAIL_FILE is there, about one
 * allocation in REMAT_FAIL_ONE_IN fails, as an overloaded machine's would. Built and used by
 * tests/integration/test_faults.py. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_ulong count;

/* Only every 16th call looks for the file, and only past the start, when the environment is
 * there. */
static int fails(void)
{
    static _Atomic(unsigned long) one_in, failing;
    unsigned long n = atomic_fetch_add(&count, 1);
    if (n < 1000)
        return 0;
    if (atomic_load(&one_in) == 0) {
        const char *text = getenv("REMAT_FAIL_ONE_IN");
        atomic_store(&one_in, text ? strtoul(text, NULL, 10) : ~0UL);
    }
    if (n % 16 == 0)
        atomic_store(&failing, access(getenv("REMAT_FAIL_FILE"), F_OK) == 0);
    if (!atomic_load(&failing) || n % atomic_load(&one_in) != 0)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
