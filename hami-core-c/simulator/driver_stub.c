#include "driver.h"
bool pool_take_granules(struct pool *p, uint64_t b){(void)p;(void)b;return false;}
void pool_leave_granules(struct pool *p, uint64_t b){(void)p;(void)b;}
void pool_settle(uint32_t d){(void)d;}
bool any_global_capture(void){return false;}
CUresult capture_kernel(struct stream *st, struct function *f, const CUDA_KERNEL_NODE_PARAMS *p){(void)st;(void)f;(void)p;return CUDA_ERROR_NOT_SUPPORTED;}
CUresult capture_copy(struct stream *st, uint64_t a, uint64_t b, uint64_t c){(void)st;(void)a;(void)b;(void)c;return CUDA_ERROR_NOT_SUPPORTED;}
CUresult capture_set(struct stream *st, uint64_t a, unsigned b, unsigned c, uint64_t d){(void)st;(void)a;(void)b;(void)c;(void)d;return CUDA_ERROR_NOT_SUPPORTED;}
CUresult capture_host(struct stream *st, CUhostFn f, void *d){(void)st;(void)f;(void)d;return CUDA_ERROR_NOT_SUPPORTED;}
CUresult capture_event(struct stream *st, struct event *e){(void)st;(void)e;return CUDA_ERROR_NOT_SUPPORTED;}
CUresult capture_wait(struct stream *st, struct event *e){(void)st;(void)e;return CUDA_ERROR_NOT_SUPPORTED;}
