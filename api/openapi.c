/* The OpenAPI document, taken into the program as it stands in openapi.json. */
#include "api.h"

static const unsigned char document[] = {
#include "openapi.inc"
    0};

const char *remat_openapi(size_t *ret_length)
{
    *ret_length = sizeof document - 1;
    return (const char *)document;
}
