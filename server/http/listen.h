/* The socket to listen on: opened, or handed over by systemd. */
#ifndef REMAT_SERVER_LISTEN_H
#define REMAT_SERVER_LISTEN_H

#include "remat/status.h"

/* A listening, non-blocking socket and its port. The one of LISTEN_FDS (sd_listen_fds(3)) if this
 * process got one; else one for "ADDRESS:PORT". -1: error says why. */
int listen_open(const char *address, unsigned *ret_port, remat_error *error);

/* Whether the address could be listened on: how it is written, and that its name is known. */
remat_status listen_check(const char *address, remat_error *error);

/* Tells systemd, if it asked (NOTIFY_SOCKET, sd_notify(3)): "READY=1", "STOPPING=1". */
void listen_notify(const char *state);

#endif
