/* Counts the bytes of posix_memalign, from which torch has those of its tensors on a CPU, without
 * asking torch.
 *   cc -shared -fPIC -O2 -o counted.so counted.c; LD_PRELOAD=./counted.so python3 ... */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { CELLS = 1 << 20 };

static struct {
    void *at; /* NULL: free */
    size_t size;
} cells[CELLS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t level, peak;

extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *at);

static size_t first(const void *at)
{
    return (size_t)(((uintptr_t)at >> 4) * 0x9e3779b97f4a7c15u) & (CELLS - 1);
}

/* What probing would find no more once a cell is free moves up into it. */
static void take_out(size_t cell)
{
    for (size_t next = (cell + 1) & (CELLS - 1); cells[next].at != NULL;
         next = (next + 1) & (CELLS - 1))
        if (((next - first(cells[next].at)) & (CELLS - 1)) >= ((next - cell) & (CELLS - 1))) {
            cells[cell] = cells[next];
            cell = next;
        }
    cells[cell].at = NULL;
}

int posix_memalign(void **at, size_t alignment, size_t size)
{
    *at = __libc_memalign(alignment, size);
    if (*at == NULL)
        return ENOMEM;
    pthread_mutex_lock(&lock);
    size_t cell = first(*at);
    while (cells[cell].at != NULL)
        cell = (cell + 1) & (CELLS - 1);
    cells[cell].at = *at;
    cells[cell].size = size;
    level += size;
    if (level > peak)
        peak = level;
    pthread_mutex_unlock(&lock);
    return 0;
}

void free(void *at)
{
    if (at == NULL)
        return;
    pthread_mutex_lock(&lock);
    size_t cell = first(at);
    while (cells[cell].at != NULL && cells[cell].at != at)
        cell = (cell + 1) & (CELLS - 1);
    if (cells[cell].at == at) {
        level -= cells[cell].size;
        take_out(cell);
    }
    pthread_mutex_unlock(&lock);
    __libc_free(at);
}

/* Begins anew: the level, from which counted_peak rises. */
void counted_begin(void)
{
    peak = level;
}

size_t counted_level(void)
{
    return level;
}

size_t counted_peak(void)
{
    return peak;
}
