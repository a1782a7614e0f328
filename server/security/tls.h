/* TLS 1.3 and 1.2 over sockets (GnuTLS), ciphers with forward secrecy and authentication only.
 * Certificates can be read again while connections are open: new ones get what is new. Loop thread
 * only. In a build without GnuTLS nothing can be loaded, and there are no sessions. */
#ifndef REMAT_SERVER_TLS_H
#define REMAT_SERVER_TLS_H

#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads both files (PEM; the certificate with its chain) and takes them if they fit together;
 * REMAT_INVALID says why not, and what there was stays. */
remat_status tls_load(const char *certificate, const char *key, remat_error *error);
void tls_free(void); /* no session may be open */

typedef struct tls_session tls_session;

/* The server's side on a non-blocking socket, which stays the caller's. NULL: no memory. */
tls_session *tls_session_new(int fd);
void tls_session_free(tls_session *t); /* accepts NULL */

/* 0: done; 1: more is to come, in the direction of tls_session_wants_write; -1: failed. */
int tls_session_shake(tls_session *t);
bool tls_session_wants_write(const tls_session *t);

/* Like recv and send; where they return -1 with EAGAIN, write must be called again with the same
 * bytes. */
ssize_t tls_session_read(tls_session *t, void *data, size_t length);
ssize_t tls_session_write(tls_session *t, const void *data, size_t length);
bool tls_session_pending(const tls_session *t); /* bytes that were received but not read */
void tls_session_bye(tls_session *t);           /* says that no more is sent; accepts NULL */

#endif
