#include "plain_loop.h"

#include <stdlib.h>

#define COST int32_t
#define PLAIN_LOOP plain_loop_int32
#include "plain_loop_body.h"
