/* Allocates, frees and launches without end; it is there to be killed at any instruction. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    CUcontext context;
    CUdeviceptr blocks[50] = {0};
    CUmodule module;
    CUfunction kernel;
    srand((unsigned)getpid());
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    if (cuModuleLoadData(&module, ".visible .entry k_20us()\n") || cuModuleGetFunction(&kernel, module, "k_20us"))
        return 1;
    puts("racing");
    fflush(stdout);
    for (;;) {
        int i = rand() % 50;
        if (blocks[i]) {
            cuMemFree(blocks[i]);
            blocks[i] = 0;
        } else if (cuMemAlloc(&blocks[i], (size_t)(rand() % 64 + 1) << 20))
            blocks[i] = 0;
        if (rand() % 8 == 0)
            cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    }
}
