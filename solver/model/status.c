#include "remat/status.h"

#include "model/text.h"

#include <stdarg.h>
#include <stdio.h>

const char *remat_status_name(remat_status status)
{
    switch (status) {
#define X(name, text)                                                                              \
    case REMAT_##name:                                                                             \
        return #name;
        REMAT_STATUS_MAP(X)
#undef X
    }
    return "INTERNAL";
}

const char *remat_status_text(remat_status status)
{
    switch (status) {
#define X(name, text)                                                                              \
    case REMAT_##name:                                                                             \
        return text;
        REMAT_STATUS_MAP(X)
#undef X
    }
    return "internal inconsistency";
}

remat_status remat_fail(remat_error *error, remat_status status, const char *field,
                        const char *format, ...)
{
    if (!error)
        return status;
    error->status = status;
    error->number = error->proven = 0;
    snprintf(error->field, sizeof error->field, "%s", field ? field : "");
    model_utf8_clean(error->field);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    model_utf8_clean(error->message);
    return status;
}

remat_status remat_fail_memory(remat_error *error)
{
    return remat_fail(error, REMAT_NO_MEMORY, NULL, "out of memory");
}
