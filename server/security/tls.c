#include "security/tls.h"

#ifdef REMAT_TLS
#include <errno.h>
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
static gnutls_certificate_credentials_t credentials;
static gnutls_priority_t priorities;

static const char priority_text[] =
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:"
    "-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM";

struct tls_session {
    gnutls_session_t session;
};

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

static int give(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                gnutls_pcert_st **chain, unsigned *length, gnutls_ocsp_data_st **ocsp,
                unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
    if (!current)
        return -1;
    *chain = current->chain;
    *length = current->length;
    *key = current->key;
    *ocsp = NULL;
    *n_ocsp = 0;
    *flags = 0;
    return 0;
}

/* What all sessions share, made with the first certificate. */
static remat_status set_up(remat_error *error)
{
    if (credentials)
        return REMAT_OK;
    const char *where = NULL;
    int code = gnutls_priority_init(&priorities, priority_text, &where);
    if (code == 0)
        code = gnutls_certificate_allocate_credentials(&credentials);
    if (code != 0)
        return remat_fail(error, REMAT_INTERNAL, NULL, "TLS cannot be set up: %s",
                          gnutls_strerror(code));
    gnutls_certificate_set_retrieve_function3(credentials, give);
    return REMAT_OK;
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
    if (!status)
        status = set_up(error);
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
    if (credentials)
        gnutls_certificate_free_credentials(credentials);
    if (priorities)
        gnutls_priority_deinit(priorities);
    credentials = NULL;
    priorities = NULL;
}

tls_session *tls_session_new(int fd)
{
    static const gnutls_datum_t http = {(unsigned char *)"http/1.1", 8};
    tls_session *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    if (gnutls_init(&t->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != 0) {
        free(t);
        return NULL;
    }
    if (gnutls_priority_set(t->session, priorities) != 0 ||
        gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, credentials) != 0 ||
        gnutls_alpn_set_protocols(t->session, &http, 1, 0) != 0) {
        tls_session_free(t);
        return NULL;
    }
    gnutls_transport_set_int(t->session, fd);
    return t;
}

void tls_session_free(tls_session *t)
{
    if (!t)
        return;
    gnutls_deinit(t->session);
    free(t);
}

int tls_session_shake(tls_session *t)
{
    int code = gnutls_handshake(t->session);
    if (code == 0 || !gnutls_error_is_fatal(code))
        return code == 0 ? 0 : 1;
    gnutls_alert_send_appropriate(t->session, code);
    return -1;
}

bool tls_session_wants_write(const tls_session *t)
{
    return gnutls_record_get_direction(t->session) == 1;
}

/* A peer that asks for another handshake is not given one. */
static ssize_t result_of(ssize_t code)
{
    if (code >= 0)
        return code;
    errno = code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
    return -1;
}

ssize_t tls_session_read(tls_session *t, void *data, size_t length)
{
    return result_of(gnutls_record_recv(t->session, data, length));
}

ssize_t tls_session_write(tls_session *t, const void *data, size_t length)
{
    return result_of(gnutls_record_send(t->session, data, length));
}

bool tls_session_pending(const tls_session *t)
{
    return gnutls_record_check_pending(t->session) > 0;
}

void tls_session_bye(tls_session *t)
{
    if (t)
        gnutls_bye(t->session, GNUTLS_SHUT_WR);
}

#else

remat_status tls_load(const char *certificate, const char *key, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, "tls-cert",
                      "this build has no TLS: GnuTLS was not there when it was made");
}

void tls_free(void)
{
}

tls_session *tls_session_new(int fd)
{
    return NULL;
}

void tls_session_free(tls_session *t)
{
}

int tls_session_shake(tls_session *t)
{
    return -1;
}

bool tls_session_wants_write(const tls_session *t)
{
    return false;
}

ssize_t tls_session_read(tls_session *t, void *data, size_t length)
{
    return -1;
}

ssize_t tls_session_write(tls_session *t, const void *data, size_t length)
{
    return -1;
}

bool tls_session_pending(const tls_session *t)
{
    return false;
}

void tls_session_bye(tls_session *t)
{
}

#endif
