/* /, /docs and /page/{file}: the page, whose files clients/web makes at build time. */
#include "http/handlers.h"

#include <stdlib.h>
#include <string.h>

typedef struct page_file {
    const char *name, *type;
    const unsigned char *plain, *gzip;
    size_t length, gzip_length;
} page_file;

/* index.html, then what it asks for by names that hold a hash of the content. Empty in a build
 * without the page. */
static const page_file files[] = {
#ifdef REMAT_PAGE
#include "page_files.inc"
#endif
    {0}};

static const char no_page[] =
    "<!doctype html>\n"
    "<html lang=\"en\"><meta charset=\"utf-8\"><title>remat</title>\n"
    "<h1>remat " REMAT_VERSION "</h1>\n"
    "<p>The page is not in this build: it was made without npm, or with -Dpage=disabled.</p>\n"
    "<p>The API is described by <a href=\"/openapi.json\">/openapi.json</a>.</p></html>\n";

static const char text_with_page[] =
    "remat " REMAT_VERSION ": rematerialization schedules over HTTP.\n"
    "A browser gets the page here. The API is described by /docs and /openapi.json.\n";
static const char text_without_page[] =
    "remat " REMAT_VERSION ": rematerialization schedules over HTTP.\n"
    "The page is not in this build. The API is described by /openapi.json.\n";

static char *copy(const void *data, size_t length)
{
    char *bytes = malloc(length);
    return bytes ? memcpy(bytes, data, length) : NULL;
}

static body *text_body(const char *text)
{
    char *bytes = strdup(text);
    return bytes ? body_new(bytes, strlen(text), false) : NULL;
}

static void reply_file(request *r, const page_file *file)
{
    char *bytes = copy(file->plain, file->length);
    body *b = bytes ? body_new(bytes, file->length, false) : NULL;
    if (b && (b->data[BODY_GZIP] = copy(file->gzip, file->gzip_length)))
        b->length[BODY_GZIP] = file->gzip_length;
    reply_body(r, 200, b);
    if (r->reply.status != 200)
        return;
    r->reply.content_type = file->type;
    r->reply.page = true;
}

bool get_root(request *r)
{
    const char *accept = http_header(r, "Accept");
    bool browser = accept && strstr(accept, "text/html");
    if (browser && files[0].name) {
        reply_file(r, &files[0]);
        return true;
    }
    reply_body(r, 200,
               text_body(browser         ? no_page
                         : files[0].name ? text_with_page
                                         : text_without_page));
    if (r->reply.status == 200)
        r->reply.content_type = browser ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
    r->reply.page = browser;
    return true;
}

static const page_file *find_file(const char *name)
{
    const page_file *file = files;
    while (file->name && strcmp(file->name, name) != 0)
        file++;
    return file->name ? file : NULL;
}

bool get_docs(request *r)
{
    const page_file *file = find_file("docs.html");
    if (file) {
        reply_file(r, file);
        return true;
    }
    reply_body(r, 200, text_body(no_page));
    if (r->reply.status == 200)
        r->reply.content_type = "text/html; charset=utf-8";
    r->reply.page = true;
    return true;
}

bool get_page_file(request *r)
{
    const page_file *file = find_file(r->id);
    if (file) {
        reply_file(r, file);
        if (r->reply.status == 200)
            reply_immutable(r, file->name);
        return true;
    }
    reply_refuse(r, REMAT_PROBLEM_NOT_FOUND, "", "the page of this build has no such file");
    return true;
}
