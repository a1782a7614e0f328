/* The networks that remat-train trains. */
#ifndef REMAT_EXECUTOR_NETWORKS_H
#define REMAT_EXECUTOR_NETWORKS_H

#include "net.h"

typedef struct network_settings {
    uint32_t batch;
    uint32_t image;   /* height and width in pixels */
    uint32_t time;    /* of sequences */
    uint32_t classes; /* of images */
    double width;     /* of every layer, 1: as published */
    uint32_t parts;   /* of the batch, in which the first stage runs; 1: the batch as one */
} network_settings;

/* Graph inputs have names that data.c knows: image, anchor, positive, negative, label, mask,
 * tokens, next, following, caption; image.1, image.2, ...: further parts of a batch. */
typedef struct network {
    const char *name;
    const char *summary;    /* one line, with the source */
    network_settings usual; /* 0: it has no such size; parts 0: the batch is always one */
    void (*build)(net_graph *net, const network_settings *settings);
} network;

extern const network network_vgg19, network_resnet18, network_resnet50, network_resnet101,
    network_resnet152, network_densenet121, network_densenet161, network_unet, network_googlenet,
    network_gpt, network_lstm, network_siamese, network_crossmodal;

/* All of them; static. */
const network *const *networks(size_t *ret_count);

/* Builds one by name. Zeros in settings mean the usual. REMAT_NOT_FOUND: no such network;
 * REMAT_INVALID, REMAT_TOO_LARGE: it has no such size,
 * or cannot have that one. Clear with net_clear. */
remat_status network_build(const char *name, const network_settings *settings, net_graph *ret_net,
                           remat_error *error);

/* ---- what networks share ---- */

enum { NETWORK_PARTS = 64 }; /* at most */

uint32_t network_channels(const network_settings *settings, uint32_t channels); /* by width */
net_tensor network_conv_norm(net_graph *net, net_tensor x, uint32_t channels, uint32_t kernel,
                             uint32_t stride, bool relu); /* padded to keep the size */
/* ResNet-18 up to its mean: batch x channels. */
net_tensor network_resnet18_features(net_graph *net, net_tensor x,
                                     const network_settings *settings);
/* Blocks of a transformer, on batch x time rows. */
net_tensor network_blocks(net_graph *net, net_tensor x, uint32_t blocks, uint32_t heads,
                          uint32_t time, bool causal);

#endif
