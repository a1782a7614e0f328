#include "security/tls.h"

#ifdef REMAT_TLS
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>

enum { MOST_CERTIFICATES = 16 };

/* What one reading of the files gave. Handshakes under way may still use older ones, so they are
 * kept: as many as there were reloads. */
typedef struct identity {
    gnutls_pcert_st chain[MOST_CERTIFICATES];
    unsigned length;
    gnutls_privkey_t key;
    struct identity *older;
} identity;

static identity *current;

const char tls_priorities[] =
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:"
    "-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM";

static void identity_free(identity *one)
{
    for (unsigned i = 0; i < one->length; i++)
        gnutls_pcert_deinit(&one->chain[i]);
    if (one->key)
        gnutls_privkey_deinit(one->key);
    free(one);
}

static remat_status fail(remat_error *error, const char *what, const char *path, int code)
{
    return remat_fail(error, REMAT_INVALID, what, "%s %s: %s", what, path, gnutls_strerror(code));
}

static remat_status read_key(identity *one, const char *path, remat_error *error)
{
    gnutls_datum_t text = {0};
    int code = gnutls_load_file(path, &text);
    if (code == 0)
        code = gnutls_privkey_init(&one->key);
    if (code == 0)
        code = gnutls_privkey_import_x509_raw(one->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (text.data)
        gnutls_memset(text.data, 0, text.size);
    gnutls_free(text.data);
    return code == 0 ? REMAT_OK : fail(error, "tls-key", path, code);
}

/* Whether what the key signs, the certificate verifies. */
static remat_status check_pair(const identity *one, const char *path, remat_error *error)
{
    const gnutls_datum_t probe = {(unsigned char *)"remat", 5};
    gnutls_datum_t signature = {0};
    gnutls_digest_algorithm_t digest = GNUTLS_DIG_SHA256;
    int code = gnutls_pubkey_get_preferred_hash_algorithm(one->chain[0].pubkey, &digest, NULL);
    if (code == 0)
        code = gnutls_privkey_sign_data(one->key, digest, 0, &probe, &signature);
    if (code == 0)
        code = gnutls_pubkey_verify_data2(
            one->chain[0].pubkey,
            gnutls_pk_to_sign(
                (gnutls_pk_algorithm_t)gnutls_privkey_get_pk_algorithm(one->key, NULL), digest),
            0, &probe, &signature);
    gnutls_free(signature.data);
    if (code >= 0)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "tls-key",
                      "the key in %s is not that of the certificate: %s", path,
                      gnutls_strerror(code));
}

static int give(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **chain,
                unsigned *length, gnutls_privkey_t *key)
{
    if (!current)
        return -1;
    *chain = current->chain;
    *length = current->length;
    *key = current->key;
    return 0;
}

remat_status tls_load(const char *certificate, const char *key, remat_error *error)
{
    identity *one = calloc(1, sizeof *one);
    if (!one)
        return remat_fail_memory(error);
    unsigned length = MOST_CERTIFICATES;
    remat_status status = REMAT_OK;
    gnutls_datum_t text = {0};
    int code = gnutls_load_file(certificate, &text);
    if (code == 0)
        code = gnutls_pcert_list_import_x509_raw(one->chain, &length, &text, GNUTLS_X509_FMT_PEM,
                                                 GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    gnutls_free(text.data);
    if (code < 0)
        status = fail(error, "tls-cert", certificate, code);
    else
        one->length = length;
    if (!status)
        status = read_key(one, key, error);
    if (!status)
        status = check_pair(one, key, error);
    if (status) {
        identity_free(one);
        return status;
    }
    one->older = current;
    current = one;
    return REMAT_OK;
}

void tls_free(void)
{
    while (current) {
        identity *older = current->older;
        identity_free(current);
        current = older;
    }
}

void *tls_callback(void)
{
    return (void *)give;
}

#else

const char tls_priorities[] = "";

remat_status tls_load(const char *certificate, const char *key, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, "tls-cert",
                      "this build has no TLS: GnuTLS was not there when it was made");
}

void tls_free(void)
{
}

void *tls_callback(void)
{
    return NULL;
}

#endif
