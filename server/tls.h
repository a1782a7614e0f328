/* Certificates for HTTPS, which can be read again while connections are open: new ones get what is
 * new. One for the process, as libmicrohttpd's callback is told of nobody. */
#ifndef REMAT_SERVER_TLS_H
#define REMAT_SERVER_TLS_H

#include "remat/status.h"

#include <microhttpd.h>
#include <stdbool.h>

/* Reads both files (PEM; the certificate with its chain) and takes them if they fit together;
 * REMAT_INVALID says why not, and what there was stays. */
remat_status tls_load(const char *certificate, const char *key, remat_error *error);
void tls_free(void);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK; NULL where this build has no TLS. */
void *tls_callback(void);

#endif
