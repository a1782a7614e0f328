#include "terminal.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define FIRST_AFTER 0.4 /* seconds: what is faster needs no bar */
#define EVERY 0.1
#define CELLS 24

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_begin(struct progress *p, bool enabled, bool ascii)
{
    *p = (struct progress){.enabled = enabled, .ascii = ascii, .start = now()};
}

static void draw_bar(const struct progress *p, double fraction)
{
    static const char *const parts[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    int eighths = (int)(fraction * CELLS * 8 + 0.5);
    for (int i = 0; i < CELLS; i++, eighths -= 8) {
        int part = eighths < 0 ? 0 : eighths > 8 ? 8 : eighths;
        fputs(p->ascii ? (part > 4 ? "#" : ".") : parts[part], stderr);
    }
}

void progress_draw(struct progress *p, const char *label, double fraction)
{
    double time = now();
    char seconds[TEXT_SIZE];
    if (!p->enabled || time < p->start + FIRST_AFTER || time < p->last + EVERY)
        return;
    if (!(fraction >= 0))
        fraction = 0;
    if (fraction > 1)
        fraction = 1;
    p->last = time;
    p->shown = true;
    fprintf(stderr, "\r\033[K%.30s ", label);
    draw_bar(p, fraction);
    fprintf(stderr, " %3.0f %%  %s", 100 * fraction, text_seconds(time - p->start, seconds));
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

void progress_of_job(void *data, const remat_client_progress *job)
{
    char label[64];
    if (job->queue_position >= 0)
        snprintf(label, sizeof label, "%.20s, %ld before", job->state, job->queue_position);
    else if (job->makespan > 0 && job->bound > 0)
        snprintf(label, sizeof label, "%.12s, gap %.2f %%", job->state,
                 100 * fmax(0, job->makespan / job->bound - 1));
    else
        snprintf(label, sizeof label, "%.20s", job->state);
    progress_draw(data, label, job->fraction);
}
