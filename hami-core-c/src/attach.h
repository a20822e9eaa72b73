/* Finding limits and region, and taking a slot. May sleep; not in a signal handler. */
#ifndef HAMI_ATTACH_H
#define HAMI_ATTACH_H

#include "state.h"

/* Read the limits file beside this library. Says whether there is one and whether it can be used. */
void attach_read_limits(struct state *s, bool *there, const char **why);
/* Open or make the region and take a slot. NULL, or why not; *full when every slot is taken. */
const char *attach_region(struct state *s, bool *full);
/* Index of a device in the region; a new one is entered. -1: no room. */
int attach_device(struct state *s, const char *uuid);

#endif
