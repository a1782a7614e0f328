/* UTF-8, as far as ids and messages need it. */
#ifndef REMAT_MODEL_TEXT_H
#define REMAT_MODEL_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the well-formed UTF-8 character at text (1 to 4) and its code point; 0 if
 * there is none. Reads no further than a NUL. */
size_t model_utf8_character(const char *text, uint32_t *ret_point);

/* Makes text well-formed: bytes that are not (a character cut in two by a buffer's end or a
 * precision) become '?'; at the very end they are dropped. */
void model_utf8_clean(char *text);

#endif
