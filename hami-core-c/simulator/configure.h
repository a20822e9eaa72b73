/* From lines of text to a device state. */
#ifndef HAMI_SIM_CONFIGURE_H
#define HAMI_SIM_CONFIGURE_H

#include "state.h"

/* One line per setting, `key=value ...`, or per kind of card, `card PROFILE key=value ...`. 0, or -1 with the reason in `why`. */
int configure(struct sim_state *s, const char *lines, char *why, size_t room);
/* The lines that the environment asks for. */
void configure_from_environment(char *lines, size_t room);

#endif
