/* Kernels: the threads of a block are fibers. A fiber runs one thread after the other and stops
 * only where a thread waits at the barrier; when all of them wait there, all go on. */
#include "emulated.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct emulated_index {
    unsigned x, y, z;
} emulated_index;

emulated_index threadIdx, blockIdx, blockDim, gridDim;

void emulated_barrier(void);
cudaError_t emulated_launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                            void (*run)(void *closure), const void *closure, size_t size,
                            const void *const *pointers, size_t n_pointers);

/* Stacks a power of two apart would share few lines of the caches. */
enum { MOST_THREADS = 1024, STACK = (64 << 10) - 192 };

/* ---- switching ---- */

#if defined(__x86_64__)

/* Keeps the registers that a call keeps on the stack, and the stack in *from. */
void emulated_switch(void **from, void *to);
__asm__(".text\n"
        ".globl emulated_switch\n"
        ".type emulated_switch, @function\n"
        "emulated_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n"
        "    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n"
        "    popq %rbx\n    popq %rbp\n    ret\n"
        ".size emulated_switch, . - emulated_switch\n");

typedef void *context;

static void context_make(context *c, uint8_t *stack, void (*entry)(void))
{
    /* as if entry had been called: its frame is 8 past a multiple of 16 */
    void **top = (void **)(void *)(stack + STACK) - 10;
    memset(top, 0, 10 * sizeof *top);
    memcpy(top + 6, &entry, sizeof entry);
    *c = top;
}

static void context_switch(context *from, context *to)
{
    emulated_switch(from, *to);
}

#else

#include <ucontext.h>

typedef ucontext_t context;

static void context_make(context *c, uint8_t *stack, void (*entry)(void))
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = STACK;
    c->uc_link = NULL;
    makecontext(c, entry, 0);
}

static void context_switch(context *from, context *to)
{
    swapcontext(from, to);
}

#endif

/* ---- blocks ---- */

typedef struct fiber {
    context context;
    unsigned thread; /* that it runs */
    bool waits;
} fiber;

static struct {
    uint8_t *stacks;
    context main;
    fiber fibers[MOST_THREADS]; /* those that exist have been made in this order */
    unsigned made, current, started;
    void (*run)(void *closure);
    void *closure;
    bool backwards; /* the last thread first */
} block;

/* Each thread that has not been started, until one of them waits. */
static void live(void)
{
    for (;;) {
        while (block.started < blockDim.x) {
            unsigned number = block.started++;
            threadIdx.x = block.backwards ? blockDim.x - 1 - number : number;
            block.run(block.closure);
        }
        context_switch(&block.fibers[block.current].context, &block.main);
    }
}

void emulated_barrier(void)
{
    fiber *own = &block.fibers[block.current];
    own->thread = threadIdx.x;
    own->waits = true;
    context_switch(&own->context, &block.main);
    threadIdx.x = own->thread;
}

static void make_stacks(void)
{
    const size_t bytes = (size_t)MOST_THREADS * STACK;
    block.stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block.stacks == MAP_FAILED)
        emulated_die("no room for the stacks of a block");
    madvise(block.stacks, bytes, MADV_HUGEPAGE);
}

static void resume(unsigned number)
{
    if (number == block.made) {
        if (!block.stacks)
            make_stacks();
        context_make(&block.fibers[number].context, block.stacks + (size_t)number * STACK, live);
        block.made++;
    }
    block.current = number;
    block.fibers[number].waits = false;
    context_switch(&block.main, &block.fibers[number].context);
}

/* Of all threads or of none of them may the next barrier be reached. */
static void run_block(void)
{
    unsigned used = 0, waiting = 0;
    block.started = 0;
    block.backwards = emulated_random() & 1;
    while (block.started < blockDim.x) {
        resume(used);
        waiting += block.fibers[used].waits;
        used += block.fibers[used].waits;
    }
    while (waiting > 0) {
        if (waiting != blockDim.x)
            emulated_die("%u of %u threads of a block wait at a barrier", waiting, blockDim.x);
        waiting = 0;
        for (unsigned i = 0; i < used; i++) {
            resume(i);
            waiting += block.fibers[i].waits;
        }
    }
}

/* ---- kernels ---- */

/* Shared memory of all kernels, if there is any. */
extern uint8_t __start_emulated_shared[] __attribute__((weak));
extern uint8_t __stop_emulated_shared[] __attribute__((weak));

typedef struct launch {
    unsigned blocks, threads;
    void (*run)(void *closure);
    max_align_t closure[];
} launch;

static void run_launch(void *data)
{
    launch *l = data;
    const bool backwards = emulated_random() & 1;
    blockDim = (emulated_index){l->threads, 1, 1};
    gridDim = (emulated_index){l->blocks, 1, 1};
    block.run = l->run;
    block.closure = l->closure;
    for (unsigned i = 0; i < l->blocks; i++) {
        blockIdx.x = backwards ? l->blocks - 1 - i : i;
        if (__start_emulated_shared)
            memset(__start_emulated_shared, EMULATED_GARBAGE,
                   (size_t)(__stop_emulated_shared - __start_emulated_shared));
        run_block();
    }
}

cudaError_t emulated_launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                            void (*run)(void *closure), const void *closure, size_t size,
                            const void *const *pointers, size_t n_pointers)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (blocks == 0 || blocks > INT32_MAX || threads == 0 || threads > MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    for (size_t i = 0; i < n_pointers; i++)
        if (pointers[i] && !emulated_on_device(pointers[i], 0))
            emulated_die("a kernel was given %p, which is not of the device", pointers[i]);
    launch *made = malloc(sizeof *made + size);
    if (!made)
        return cudaErrorMemoryAllocation;
    made->blocks = blocks;
    made->threads = threads;
    made->run = run;
    memcpy(made->closure, closure, size);
    emulated_queue(stream, run_launch, made, sizeof *made + size);
    free(made);
    return cudaSuccess;
}
