/* Files in and out. */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define MAX_FILE ((size_t)1 << 30)

static remat_status fail_file(const char *path, const char *verb, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, NULL, "cannot %s %.200s: %s", verb,
                      *path ? path : "\"\"", strerror(errno));
}

/* Everything a stream has; *ret_text is the caller's. */
static remat_status read_all(FILE *stream, const char *path, char **ret_text, size_t *ret_length,
                             remat_error *error)
{
    size_t capacity = 0, length = 0, got;
    char *text = NULL;
    do {
        if (length == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *larger = capacity <= MAX_FILE ? realloc(text, capacity) : NULL;
            if (!larger) {
                free(text);
                return capacity > MAX_FILE
                           ? remat_fail(error, REMAT_INVALID, NULL,
                                        "%.200s is longer than %zu bytes", path, MAX_FILE / 2)
                           : remat_fail_memory(error);
            }
            text = larger;
        }
        got = fread(text + length, 1, capacity - length, stream);
        length += got;
    } while (got > 0);
    if (ferror(stream)) {
        free(text);
        return fail_file(path, "read", error);
    }
    *ret_text = text;
    *ret_length = length;
    return REMAT_OK;
}

/* What was read, so that nothing is written over it. */
static struct stat were_read[16];
static unsigned n_read;

static void note_read(FILE *stream)
{
    struct stat *found = &were_read[n_read % 16];
    n_read += fstat(fileno(stream), found) == 0 && S_ISREG(found->st_mode);
}

static bool was_read(const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return false;
    for (unsigned i = 0; i < n_read && i < 16; i++)
        if (were_read[i].st_dev == found.st_dev && were_read[i].st_ino == found.st_ino)
            return true;
    return false;
}

/* Text that came gzipped as it was before, all members of it; the caller's, as text was. */
static remat_status unpack(const char *name, char **text, size_t *length, remat_error *error)
{
    enum { PIECE = 1 << 20, OF_GZIP = 16 };
    z_stream z = {.next_in = (unsigned char *)*text, .avail_in = (unsigned)*length};
    char *plain = NULL;
    size_t size = 0;
    int code = inflateInit2(&z, MAX_WBITS + OF_GZIP);
    while (code == Z_OK && size < MAX_FILE) {
        char *larger = realloc(plain, size + PIECE);
        if (!larger) {
            code = Z_MEM_ERROR;
            break;
        }
        plain = larger;
        z.next_out = (unsigned char *)plain + size;
        z.avail_out = PIECE;
        code = inflate(&z, Z_NO_FLUSH);
        size += PIECE - z.avail_out;
        if (code == Z_STREAM_END && z.avail_in > 0)
            code = inflateReset(&z);
    }
    inflateEnd(&z);
    if (code == Z_STREAM_END) {
        free(*text);
        *text = plain;
        *length = size;
        return REMAT_OK;
    }
    free(plain);
    return code == Z_MEM_ERROR ? remat_fail_memory(error)
           : code == Z_OK      ? remat_fail(error, REMAT_INVALID, NULL,
                                            "%.200s is longer than %zu bytes unpacked", name, MAX_FILE)
                               : remat_fail(error, REMAT_INVALID, NULL,
                                            "%.200s is damaged: it begins as gzip does", name);
}

/* A file, or standard input, by the name that errors give it. */
static remat_status read_file(const char *path, const char **ret_name, char **ret_text,
                              size_t *ret_length, remat_error *error)
{
    bool is_stdin = strcmp(path, "-") == 0;
    *ret_name = is_stdin ? "standard input" : path;
    FILE *stream = is_stdin ? stdin : fopen(path, "rb");
    if (!stream)
        return fail_file(path, "open", error);
    note_read(stream);
    remat_status status = read_all(stream, *ret_name, ret_text, ret_length, error);
    if (!is_stdin)
        fclose(stream);
    if (status || *ret_length < 2 || memcmp(*ret_text, "\x1f\x8b", 2) != 0)
        return status;
    status = unpack(*ret_name, ret_text, ret_length, error);
    if (status)
        free(*ret_text);
    return status;
}

remat_status file_read_text(const char *path, char **ret_text, remat_error *error)
{
    const char *name;
    char *text = NULL;
    size_t length = 0;
    remat_status status = read_file(path, &name, &text, &length, error);
    if (status)
        return status;
    char *ended = realloc(text, length + 1);
    if (!ended) {
        free(text);
        return remat_fail_memory(error);
    }
    ended[length] = '\0';
    if (strlen(ended) < length) {
        free(ended);
        return remat_fail(error, REMAT_INVALID, NULL, "%.200s is no text", name);
    }
    *ret_text = ended;
    return REMAT_OK;
}

remat_status file_blame(const char *path, const char *field, const remat_error *reason,
                        remat_error *error)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path, *why = reason->message;
    const bool body = strncmp(why, "the body ", 9) == 0; /* of a request */
    return remat_fail(error, reason->status, field, "%.200s%s %.500s", name, body ? "" : ":",
                      body ? why + 9 : why);
}

remat_status file_read_json(const char *path, json_t **ret_json, remat_error *error)
{
    const char *name;
    char *text = NULL;
    size_t length = 0;
    remat_error reason;
    remat_status status = read_file(path, &name, &text, &length, error);
    if (status)
        return status;
    status = remat_json_parse(text, length, ret_json, &reason);
    free(text);
    if (status == REMAT_INVALID)
        return file_blame(path, "", &reason, error);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* Makes the file that is not there, behind a link too, and takes it away. Returns errno. */
static int try_new_file(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return errno;
    close(file);
    char *made = realpath(path, NULL);
    const int reason = made && unlink(made) == 0 ? 0 : errno;
    free(made);
    return reason;
}

remat_status file_check_write(const char *path, remat_error *error)
{
    struct stat found;
    if (strcmp(path, "-") == 0)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "- is no file to write; without -o, --json prints what it would have");
    int reason = 0;
    if (stat(path, &found) == 0)
        reason = S_ISDIR(found.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    else if (errno != ENOENT)
        reason = errno;
    else
        reason = try_new_file(path);
    return reason ? remat_fail(error, REMAT_INTERNAL, NULL, "cannot write %.200s: %s",
                               *path ? path : "\"\"", strerror(reason))
                  : REMAT_OK;
}

remat_status file_write_text(const char *path, const char *text, remat_error *error)
{
    if (was_read(path))
        return remat_fail(error, REMAT_INTERNAL, NULL,
                          "cannot write %.200s: it was read, and would be lost", path);
    FILE *stream = fopen(path, "wb");
    bool failed = !stream || fputs(text, stream) < 0 || putc('\n', stream) < 0;
    int reason = errno;
    if (stream && fclose(stream) && !failed) {
        failed = true;
        reason = errno;
    }
    if (failed)
        return remat_fail(error, REMAT_INTERNAL, NULL, "cannot write %.200s: %s", path,
                          strerror(reason));
    return REMAT_OK;
}
