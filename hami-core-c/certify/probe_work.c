/* Steps that launch. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

#define AHEAD_NS 20000000           /* kernels of so much time may wait, as in a framework's queue */

struct job { CUfunction function; CUgraphExec graph; unsigned x, y; };

static CUresult by_kernel(const struct job *j)
{
    return GPU(cuLaunchKernel)(j->function, j->x, j->y, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static CUresult by_config(const struct job *j)
{
    CUlaunchConfig config = {.gridDimX = j->x, .gridDimY = j->y, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    return GPU(cuLaunchKernelEx)(&config, j->function, NULL, NULL);
}

static CUresult by_cooperation(const struct job *j)
{
    return GPU(cuLaunchCooperativeKernel)(j->function, j->x, j->y, 1, 32, 1, 1, 0, NULL, NULL);
}

static CUresult by_graph(const struct job *j) { return GPU(cuGraphLaunch)(j->graph, NULL); }

static CUresult nothing(const struct job *j)
{
    (void)j;
    return CUDA_ERROR_INVALID_VALUE;
}

static const struct { const char *name; CUresult (*launch)(const struct job *); } kinds[] = {
    {"kernel", by_kernel}, {"grid", by_kernel}, {"config", by_config}, {"cooperative", by_cooperation}, {"graph", by_graph}};

static CUresult prepare(struct job *j, const char *how, const char *kernel)
{
    CUmodule module;
    CUgraph graph;
    CUgraphNode node;
    char image[128];
    snprintf(image, sizeof image, ".visible .entry %s()\n", kernel);
    *j = (struct job){.x = 1, .y = 1};
    if (strcmp(how, "grid") == 0)           /* a product that does not fit into 31 bits */
        j->x = 65535, j->y = 32769;
    CUresult s = GPU(cuModuleLoadData)(&module, image);
    s = s ? s : GPU(cuModuleGetFunction)(&j->function, module, kernel);
    if (s || strcmp(how, "graph") != 0)
        return s;
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.func = j->function;
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 32;
    s = GPU(cuGraphCreate)(&graph, 0);
    s = s ? s : GPU(cuGraphAddKernelNode)(&node, graph, NULL, 0, &params);
    return s ? s : GPU(cuGraphInstantiateWithFlags)(&j->graph, graph, 0);
}

static void work(char **word)               /* HOW SECONDS MICROSECONDS: kernels of so long each; how many */
{
    struct job j;
    char kernel[64];
    long us = atol(word[3]) > 0 ? atol(word[3]) : 1;
    unsigned long n = 0, ahead = (unsigned long)(AHEAD_NS / 1000 / us) + 1;
    snprintf(kernel, sizeof kernel, "spin_%ldus", us);
    CUresult (*launch)(const struct job *) = nothing;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, word[1]) == 0)
            launch = kinds[i].launch;
    CUresult s = prepare(&j, word[1], kernel);
    for (double end = now() + atof(word[2]); s == CUDA_SUCCESS && now() < end;) {
        s = launch(&j);
        if (++n % ahead == 0 && s == CUDA_SUCCESS)
            s = GPU(cuCtxSynchronize)();
    }
    s = s ? s : GPU(cuCtxSynchronize)();
    answer(s, n, 0);
}

static void launches(char **word)           /* HOW COUNT MICROSECONDS: so many and no more, then wait for them */
{
    struct job j;
    char kernel[64];
    snprintf(kernel, sizeof kernel, "spin_%ldus", atol(word[3]));
    CUresult s = prepare(&j, word[1], kernel);
    for (long n = 0; n < atol(word[2]) && s == CUDA_SUCCESS; n++)
        s = by_kernel(&j);
    s = s ? s : GPU(cuCtxSynchronize)();
    answer(s, 0, 0);
}

const struct step work_steps[] = {{"work", work}, {"launches", launches}, {NULL, NULL}};
