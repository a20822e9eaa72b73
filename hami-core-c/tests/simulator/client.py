"""A small client of the driver, for the programs that tests run: ctypes only, no runtime, no bindings."""

import ctypes as c
import os
from typing import Any

FOLDER = os.environ["HAMI_SIM_LIBRARIES"]
OUT_OF_MEMORY, INVALID_VALUE, NOT_INITIALIZED, NOT_SUPPORTED = 2, 1, 3, 801
MIB = 2**20


class Refused(Exception):
    """A call of the driver that did not succeed."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name}: {code}")
        self.code = code


class Driver:
    """``libcuda.so.1`` with every call checked: ``driver.cuInit(0)`` raises unless it answers 0."""

    def __init__(self, path: str = f"{FOLDER}/libcuda.so.1") -> None:
        self.library = c.CDLL(path)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, name)

        def call(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                raise Refused(name, code)

        return call

    def code(self, name: str, *arguments: Any) -> int:
        """The plain answer of a call."""
        return int(getattr(self.library, name)(*arguments))

    def out(self, name: str, *arguments: Any, kind: Any = c.c_void_p) -> Any:
        """What a call leaves in its first parameter."""
        value = kind()
        getattr(self, name)(c.byref(value), *arguments)
        return value if kind is c.c_void_p else value.value

    def start(self, ordinal: int = 0) -> c.c_void_p:
        """Initialise and make the primary context of a device current."""
        self.cuInit(0)
        context = self.out("cuDevicePrimaryCtxRetain", ordinal)
        self.cuCtxSetCurrent(context)
        return context  # type: ignore[no-any-return]

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = c.c_size_t(), c.c_size_t()
        self.cuMemGetInfo_v2(c.byref(free), c.byref(total))
        return free.value, total.value

    def alloc(self, size: int) -> int:
        """A block."""
        return int(self.out("cuMemAlloc_v2", c.c_size_t(size), kind=c.c_uint64))

    def free(self, pointer: int) -> None:
        """Give a block back."""
        self.cuMemFree_v2(c.c_uint64(pointer))

    def function(self, name: str) -> c.c_void_p:
        """A kernel of a module that has just this one."""
        module = self.out("cuModuleLoadData", f".visible .entry {name}()\n".encode())
        return self.out("cuModuleGetFunction", module, name.encode())  # type: ignore[no-any-return]

    def launch(self, function: c.c_void_p, blocks: int = 1, stream: Any = None) -> None:
        """One launch."""
        self.cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, None, None)
