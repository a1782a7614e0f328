/* What of the machine this process may use: its affinity and its control groups (both versions),
 * not what the machine has. In a container the two differ. */
#ifndef REMAT_HOST_MACHINE_H
#define REMAT_HOST_MACHINE_H

#include <stdint.h>

unsigned machine_cores(void);  /* at least 1; of a part of a core, one */
uint64_t machine_memory(void); /* bytes */
int64_t machine_clock(void);   /* milliseconds since 1970 */

/* A file that may not grow any further (RLIMIT_FSIZE) is an error of the write, like a full disk,
 * and no end of the process. */
void machine_keep_writing(void);

/* Where standard input, output or error is closed, the next file or socket would get its number,
 * and then what is printed. Call first: they are opened, so that using them still fails. */
void machine_keep_streams(void);

#endif
