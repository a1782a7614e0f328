/* Bearer tokens: who may do what. They live in a file, made and revoked by `rematd token`, which
 * keeps their SHA-256 only; the daemon reads it at its start and again at SIGHUP.
 *
 *     {"tokens": [{"name", "scopes": ["read", "solve", "admin"], "sha256", "created",
 *                  "rate": requests a second, "jobs": unfinished solves}]}
 *
 * A token is "remat_" and 64 random hex digits, so that its plain hash cannot be guessed back. */
#ifndef REMAT_SERVER_TOKENS_H
#define REMAT_SERVER_TOKENS_H

#include "api.h"

typedef enum scope { SCOPE_NONE = 0, SCOPE_READ = 1, SCOPE_SOLVE = 2, SCOPE_ADMIN = 4 } scope;

enum { TOKEN_NAME_SIZE = 65, TOKEN_SIZE = 71 };

typedef struct token {
    char name[TOKEN_NAME_SIZE];
    unsigned scopes;
    double rate;   /* requests a second; 0: no limit of its own */
    unsigned jobs; /* unfinished solves; 0: no limit of its own */
    char created[32];
    char hash[REMAT_ID_SIZE];
} token;

typedef struct tokens {
    token *items;
    size_t n;
} tokens;

/* REMAT_INVALID names what is wrong in the file. */
remat_status tokens_load(const char *path, tokens *ret_tokens, remat_error *error);
void tokens_clear(tokens *t);

/* Which token the text is; NULL if none. Takes the same time for every text. */
const token *tokens_find(const tokens *t, const char *text);

/* The commands of `rematd token`; returns the exit status. */
int tokens_command(const char *path, int argc, char **argv);

#endif
