#include "plain_loop.h"

#include <stdlib.h>

#define COST double
#define PLAIN_LOOP plain_loop_double
#include "plain_loop_body.h"
