/* What the libFuzzer targets share. Built by: CC=clang meson setup build-fuzz -Dfuzz=true. */
#ifndef REMAT_FUZZ_H
#define REMAT_FUZZ_H

#include "api.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A small chain with a state, for targets that need a valid profile. Never NULL. */
static inline remat_profile *fuzz_profile(void)
{
    static const char text[] =
        "{\"format\":\"remat-profile/1\",\"name\":\"n\",\"inputs\":[{\"id\":\"x\",\"bytes\":3}],"
        "\"states\":[{\"id\":\"s\",\"bytes\":1}],\"nodes\":["
        "{\"id\":\"a\",\"inputs\":[\"x\"],\"forward_time\":1,\"output_bytes\":2,\"saved_bytes\":1,"
        "\"reads\":[\"s\"],\"writes\":[\"s\"]},"
        "{\"id\":\"b\",\"inputs\":[\"a\"],\"forward_time\":1,\"output_bytes\":2,\"in_place\":true},"
        "{\"id\":\"c\",\"inputs\":[\"b\"],\"forward_time\":1,\"output_bytes\":0}]}";
    json_t *json = NULL;
    remat_profile *profile = NULL;
    if (remat_json_parse(text, sizeof text - 1, &json, NULL) ||
        remat_profile_decode(json, "", &profile, NULL))
        abort();
    json_decref(json);
    return profile;
}

#endif
