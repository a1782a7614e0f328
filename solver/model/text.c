#include "model/text.h"

size_t model_utf8_character(const char *text, uint32_t *ret_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *ret_point = s[0];
        return s[0] ? 1 : 0;
    }
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    uint32_t point = s[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (s[i] & 0x3Fu);
    }
    if (point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return 0;
    *ret_point = point;
    return length;
}

void model_utf8_clean(char *text)
{
    char *good_end = text;
    for (char *s = text; *s;) {
        uint32_t point;
        size_t length = model_utf8_character(s, &point);
        if (length == 0)
            *s = '?';
        s += length ? length : 1;
        if (length > 0)
            good_end = s;
    }
    *good_end = '\0';
}
