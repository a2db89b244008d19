#pragma once

#include <zlib.h>

// deflateInit2 is a macro. 15 + 16: the largest window, in the gzip format.
static inline int freshet_gzip_init(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
}
