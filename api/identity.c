#include "api.h"

#include <nettle/sha2.h>
#include <string.h>

static void hex(const uint8_t digest[SHA256_DIGEST_SIZE], char ret_id[REMAT_ID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++) {
        ret_id[2 * i] = digits[digest[i] >> 4];
        ret_id[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_id[2 * SHA256_DIGEST_SIZE] = '\0';
}

static void finish(struct sha256_ctx *sha, char ret_id[REMAT_ID_SIZE])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(sha, sizeof digest, digest);
    hex(digest, ret_id);
}

void remat_sha256_hex(const void *bytes, size_t length, char ret_id[REMAT_ID_SIZE])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, length, bytes);
    finish(&sha, ret_id);
}

static void update(void *context, const void *bytes, size_t length)
{
    sha256_update(context, length, bytes);
}

void remat_profile_id(const remat_profile *profile, char ret_id[REMAT_ID_SIZE])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    remat_profile_encode(profile, update, &sha);
    finish(&sha, ret_id);
}

bool remat_is_id(const char *text)
{
    return strspn(text, "0123456789abcdef") == REMAT_ID_SIZE - 1 && text[REMAT_ID_SIZE - 1] == '\0';
}
