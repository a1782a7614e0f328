/* What the commands tell their caller. */
#include "terminal.h"

int exit_code_of(remat_status status)
{
    switch (status) {
    case REMAT_OK:
        return CLI_OK;
    case REMAT_INFEASIBLE:
        return CLI_NO;
    case REMAT_INVALID:
    case REMAT_NOT_ACCEPTED:
    case REMAT_TOO_LARGE:
    case REMAT_NOT_FOUND:
        return CLI_INPUT;
    case REMAT_IO:
    case REMAT_CANCELLED:
        return CLI_SERVER;
    case REMAT_NO_MEMORY:
    case REMAT_CORRUPT:
    case REMAT_NEWER:
    case REMAT_INTERNAL:
        break;
    }
    return CLI_INTERNAL;
}
