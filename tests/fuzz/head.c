/* Any bytes as a request: the head's end and meaning, and the body's chunks, are the same however
 * the bytes come in pieces, and nothing is read past them. The first byte says where they are
 * cut. */
#include "http/framing.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feeds text in pieces; returns the state and how many bytes were taken. */
static framing_state scan(const char *text, size_t length, size_t piece, size_t *ret_used)
{
    head_scan s = {0};
    framing_state state = FRAMING_MORE;
    *ret_used = 0;
    while (*ret_used < length && state == FRAMING_MORE) {
        size_t left = length - *ret_used, used = 0;
        state = head_scan_feed(&s, text + *ret_used, left < piece ? left : piece, &used);
        *ret_used += state == FRAMING_BAD ? 0 : used;
    }
    return state;
}

static framing_state read_chunks(const char *text, size_t length, size_t piece, size_t *ret_used,
                                 size_t *ret_sum)
{
    chunks c = {0};
    framing_state state = FRAMING_MORE;
    *ret_used = *ret_sum = 0;
    while (*ret_used < length && state == FRAMING_MORE) {
        size_t left = length - *ret_used, used = 0, content = 0;
        state = chunks_feed(&c, text + *ret_used, left < piece ? left : piece, &used, &content);
        if (state == FRAMING_BAD)
            break;
        for (size_t i = *ret_used + used - content; i < *ret_used + used; i++)
            *ret_sum = *ret_sum * 31 + (unsigned char)text[i];
        *ret_used += used;
    }
    return state;
}

/* What a head that was taken must be, whatever it was. */
static void check_head(const char *text, size_t length)
{
    char *copy = malloc(length);
    head h;
    const char *why = NULL;
    memcpy(copy, text, length);
    int status = head_read(&h, copy, length, &why);
    if (status && !why)
        abort();
    if (!status) {
        const char *size = head_value(&h, "content-length");
        if ((h.target[0] != '/' && strcmp(h.target, "*") != 0) || (h.chunked && size) ||
            (!h.host && !h.http_1_0) || (h.length > 0 && !size) || h.n_fields > HEAD_FIELDS)
            abort();
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *text = malloc(size); /* of its own, so that a read past its end is seen */
    size_t length = size - 1, piece = data[0] + 1u, used, other, sum, other_sum;
    memcpy(text, data + 1, length);
    framing_state state = scan(text, length, length + 1, &used);
    if (scan(text, length, piece, &other) != state || (state == FRAMING_WHOLE && used != other))
        abort();
    if (state == FRAMING_WHOLE)
        check_head(text, used);
    size_t from = state == FRAMING_WHOLE ? used : 0;
    state = read_chunks(text + from, length - from, length + 1, &used, &sum);
    if (read_chunks(text + from, length - from, piece, &other, &other_sum) != state ||
        (state == FRAMING_WHOLE && (used != other || sum != other_sum)))
        abort();
    free(text);
    return 0;
}
