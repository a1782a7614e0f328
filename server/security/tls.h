/* Certificates for the TLS of libmicrohttpd, which can be read again while connections are open:
 * new ones get what is new. One for the process, as libmicrohttpd's callback is told of nobody.
 * Loop thread only. In a build without GnuTLS nothing can be loaded. */
#ifndef REMAT_SERVER_TLS_H
#define REMAT_SERVER_TLS_H

#include "remat/status.h"

#include <stddef.h>

/* Reads both files (PEM; the certificate with its chain) and takes them if they fit together;
 * REMAT_INVALID says why not, and what there was stays. */
remat_status tls_load(const char *certificate, const char *key, remat_error *error);
void tls_free(void); /* no connection may be open */

/* For MHD_OPTION_HTTPS_CERT_CALLBACK; NULL where this build has no TLS. */
void *tls_callback(void);

/* For MHD_OPTION_HTTPS_PRIORITIES: TLS 1.3 and 1.2, ciphers with forward secrecy and authentication
 * only. */
extern const char tls_priorities[];

#endif
