#include "instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void wrong(const char *path, size_t line)
{
    fprintf(stderr, "%s:%zu: this is no line of id,lower,upper,size\n", path, line);
    exit(2);
}

static remat_layout room_for(size_t n)
{
    remat_layout layout = {.items = calloc(n, sizeof *layout.items), .alignment = 1};
    if (!layout.items)
        exit(2);
    return layout;
}

remat_layout instance_read(const char *path)
{
    enum { MOST = 1 << 20 };
    char text[256];
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file) || strncmp(text, "id,lower,upper,size", 19) != 0)
        wrong(path, 1);
    remat_layout layout = room_for(MOST);
    while (fgets(text, sizeof text, file) && layout.n < MOST) {
        long long id, lower, upper, size;
        if (sscanf(text, "%lld,%lld,%lld,%lld", &id, &lower, &upper, &size) != 4 ||
            lower >= upper || upper > INT32_MAX || lower < INT32_MIN || size <= 0)
            wrong(path, layout.n + 2);
        layout.items[layout.n++] = (remat_allocation){
            .bytes = (uint64_t)size, .first = (int32_t)lower, .last = (int32_t)upper - 1};
    }
    fclose(file);
    return layout;
}

remat_layout instance_random(uint32_t n, uint64_t seed)
{
    remat_layout layout = room_for(n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t draws[3];
        for (int k = 0; k < 3; k++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            draws[k] = seed >> 33;
        }
        const int32_t length =
            draws[0] % 16 == 0 ? (int32_t)(draws[1] % 2000) : (int32_t)(draws[1] % 40);
        layout.items[i] = (remat_allocation){.bytes = 1 + draws[2] % 65536 * (1 + draws[0] % 7),
                                             .first = (int32_t)i,
                                             .last = (int32_t)i + length};
    }
    layout.n = n;
    return layout;
}
