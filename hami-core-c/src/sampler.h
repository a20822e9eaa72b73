/* What NVML says about the device: asked by one elected process of the container. */
#ifndef HAMI_SAMPLER_H
#define HAMI_SAMPLER_H

#include "runtime.h"

/* A round of the settling thread: the page of the books, and now and then a sample. */
void sampler_round(struct process *p, unsigned device, int64_t now, bool in_flight);
/* Bytes of the card in use, by NVML; 0 where it does not say. Opens the management library where the program has not. */
uint64_t sampler_card_used(struct process *p, unsigned device);
/* Bytes of the card that this process holds, by NVML; -1 where it does not say or our pid on the host is not known. */
int64_t sampler_own_used(struct process *p, unsigned device);
/* Our pid as the host sees it, from the agent's socket beside the region; 0 = not known. At most 0.2 s. */
int32_t sampler_host_pid(const char *region_path);

#endif
