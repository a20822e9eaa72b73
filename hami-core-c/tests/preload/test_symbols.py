"""Who gets which function: by address, for whoever asks in whatever way, and nothing of ours for anybody else."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import MIB, SANITIZE, Container, Node, compile_c, runtimes

REFUSED_BYTES = 5000 * MIB


@pytest.fixture
def limited(node: Node, make_container: Callable[..., Container]) -> Container:
    one = make_container(node)
    one.limits(*(f"{uuid} memory={1000 * MIB}" for uuid in node.uuids()))
    return one


def run(container: Container, program: Path, **more: str) -> str:
    done = subprocess.run([str(program)], env=container.environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HEAD = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "driver.h"
__attribute__((unused)) static int too_much(void *(*find)(const char *))
{
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))find("cuInit");
    CUresult (*retain)(CUcontext *, int) = (CUresult(*)(CUcontext *, int))find("cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))find("cuCtxSetCurrent");
    CUresult (*alloc)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))find("cuMemAlloc_v2");
    CUcontext c;
    CUdeviceptr p;
    if (!init || !retain || !set || !alloc || init(0) || retain(&c, 0) || set(c))
        return -1;
    return (int)alloc(&p, 5000u * 1048576ul);
}
"""


def program(tmp_path: Path, tools: Path, name: str, body: str, *flags: str) -> Path:
    source = tmp_path / f"{name}.c"
    source.write_text(HEAD + body)
    return compile_c([source], tmp_path / name, *flags)


def test_a_handle_gives_the_stand_in(limited: Container, tmp_path: Path, tools: Path) -> None:
    body = """
    static void *h;
    static void *find(const char *n) { return dlsym(h, n); }
    int main(void) { h = dlopen("libcuda.so.1", RTLD_NOW); printf("%d %d", too_much(find), dlerror() != NULL); return 0; }"""
    assert run(limited, program(tmp_path, tools, "handle", body, "-ldl")) == "2 0"


def test_the_default_scope_gives_the_stand_in_only_where_a_driver_is(
    limited: Container, tmp_path: Path, tools: Path
) -> None:
    body = """
    static void *find(const char *n) { return dlsym(RTLD_DEFAULT, n); }
    int main(void)
    {
        void *none = dlsym(RTLD_DEFAULT, "cuInit"), *all = dlopen(NULL, RTLD_NOW), *none_either = dlsym(all, "cuInit");
        int told = dlerror() != NULL;
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        printf("%d %d %d %d", none != NULL, none_either != NULL, told, too_much(find));
        return 0;
    }"""
    assert run(limited, program(tmp_path, tools, "default", body, "-ldl")) == "0 0 1 2"


def test_next_gives_the_stand_in_when_the_next_is_a_driver(limited: Container, tmp_path: Path, tools: Path) -> None:
    library = "void *next(const char *n); void *next(const char *n) { return dlsym(RTLD_NEXT, n); }"
    body = 'extern void *next(const char *n); int main(void) { printf("%d", too_much(next)); return 0; }'
    (tmp_path / "next.c").write_text("#include <dlfcn.h>\n" + library)
    compile_c([tmp_path / "next.c"], tmp_path / "libnext.so", "-shared", "-fPIC", "-ldl")
    link = [f"-L{tmp_path}", "-lnext", f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed", f"-L{tools / 'sim'}", "-lcuda"]
    assert run(limited, program(tmp_path, tools, "uses-next", body, *link)) == "2"


def test_next_of_other_functions_is_as_without_us(limited: Container, tmp_path: Path, tools: Path) -> None:
    body = """
    int main(void)
    {
        void *first = dlsym(RTLD_NEXT, "printf"), *second = dlsym(RTLD_NEXT, "printf");
        printf("%d %d %d", first != NULL, first == second, dlsym(RTLD_NEXT, "no_such_function") == NULL);
        return 0;
    }"""
    assert run(limited, program(tmp_path, tools, "plain-next", body, "-ldl")) == "1 1 1"


def test_a_local_plugin_finds_its_own_dependency(limited: Container, tmp_path: Path, tools: Path) -> None:
    (tmp_path / "dep.c").write_text("int only_mine(void); int only_mine(void) { return 41; }")
    compile_c([tmp_path / "dep.c"], tmp_path / "libdep.so", "-shared", "-fPIC")
    (tmp_path / "plug.c").write_text(
        '#include <dlfcn.h>\nint ask(void); int ask(void) { int (*f)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "only_mine"); '
        "return f ? f() : 0; }"
    )
    dep = [f"-L{tmp_path}", "-Wl,--no-as-needed", "-ldep", f"-Wl,-rpath,{tmp_path}"]
    compile_c([tmp_path / "plug.c"], tmp_path / "plug.so", "-shared", "-fPIC", *dep)
    body = f"""
    int main(void) {{ void *h = dlopen("{tmp_path}/plug.so", RTLD_NOW | RTLD_LOCAL);
    int (*ask)(void) = (int (*)(void))dlsym(h, "ask");
    printf("%d", ask()); return 0; }}"""
    assert run(limited, program(tmp_path, tools, "plugins", body, "-ldl")) == "41"


def test_a_plugin_linked_with_the_driver_is_limited(limited: Container, tmp_path: Path, tools: Path) -> None:
    plug = (
        HEAD
        + """
    extern CUresult cuInit(unsigned), cuDevicePrimaryCtxRetain(CUcontext *, int), cuCtxSetCurrent(CUcontext);
    extern CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
    static void *find(const char *n)
    {
        return !strcmp(n, "cuInit") ? (void *)cuInit : !strcmp(n, "cuMemAlloc_v2") ? (void *)cuMemAlloc_v2
            : !strcmp(n, "cuCtxSetCurrent") ? (void *)cuCtxSetCurrent : (void *)cuDevicePrimaryCtxRetain;
    }
    int ask(void); int ask(void) { return too_much(find); }"""
    )
    (tmp_path / "gpu.c").write_text(plug)
    compile_c([tmp_path / "gpu.c"], tmp_path / "gpu.so", "-shared", "-fPIC", f"-L{tools / 'sim'}", "-lcuda")
    body = f"""
    int main(void) {{ void *h = dlopen("{tmp_path}/gpu.so", RTLD_NOW | RTLD_LOCAL);
    int (*ask)(void) = (int (*)(void))dlsym(h, "ask");
    printf("%d", ask()); return 0; }}"""
    assert run(limited, program(tmp_path, tools, "gpu-plugin", body, "-ldl")) == "2"


def test_functions_that_only_share_a_name_are_left_alone(limited: Container, tmp_path: Path, tools: Path) -> None:
    (tmp_path / "foreign.c").write_text(
        "int cuMemAlloc_v2(void *p, unsigned long n); int cuMemAlloc_v2(void *p, unsigned long n) { return p && n ? 55 : 54; }"
    )
    compile_c([tmp_path / "foreign.c"], tmp_path / "foreign.so", "-shared", "-fPIC")
    body = f"""
    int main(void)
    {{
        void *h = dlopen("{tmp_path}/foreign.so", RTLD_NOW | RTLD_LOCAL);
        CUresult (*alloc)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))dlsym(h, "cuMemAlloc_v2");
        CUdeviceptr p;
        printf("%d", (int)alloc(&p, 1));
        return 0;
    }}"""
    assert run(limited, program(tmp_path, tools, "foreign", body, "-ldl")) == "55"


@pytest.mark.parametrize("order", ["before", "after"])
def test_another_interposer_of_dlsym_does_not_hide_the_driver_from_us(
    limited: Container, tmp_path: Path, tools: Path, order: str
) -> None:
    (tmp_path / "tool.c").write_text(
        """
        #include <dlfcn.h>
        void *dlsym(void *h, const char *n)
        {
            static void *(*real)(void *, const char *);
            if (!real)
                real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
            return real(h, n);
        }"""
    )
    tool = compile_c([tmp_path / "tool.c"], tmp_path / "tool.so", "-shared", "-fPIC", "-ldl")
    body = """
    static void *h;
    static void *find(const char *n) { return dlsym(h, n); }
    int main(void) { h = dlopen("libcuda.so.1", RTLD_NOW); printf("%d", too_much(find)); return 0; }"""
    both = [str(tool), str(limited.library)]
    preload = ":".join(runtimes() + (both if order == "before" else both[::-1]))
    assert run(limited, program(tmp_path, tools, "tooled", body, "-ldl"), LD_PRELOAD=preload) == "2"


def test_two_copies_of_the_driver_keep_their_own_functions(limited: Container, tmp_path: Path, tools: Path) -> None:
    copy = tmp_path / "compat" / "libcuda.so.1"
    copy.parent.mkdir()
    copy.write_bytes((tools / "sim" / "libcuda.so.1").read_bytes())
    body = f"""
    static void *h;
    static void *find(const char *n) {{ return dlsym(h, n); }}
    int main(void)
    {{
        h = dlopen("libcuda.so.1", RTLD_NOW);
        int first = too_much(find);
        h = dlopen("{copy}", RTLD_NOW);
        printf("%d %d", first, too_much(find));
        return 0;
    }}"""
    assert run(limited, program(tmp_path, tools, "two-drivers", body, "-ldl")) == "2 2"


def test_a_driver_of_the_compatibility_folder_is_limited_and_the_other_one_never_opened(
    limited: Container, tmp_path: Path, tools: Path
) -> None:
    """Images that bring a newer driver put its folder first in the library path; a second one would be one uninitialised."""
    newer = tmp_path / "cuda" / "compat" / "libcuda.so.1"
    newer.parent.mkdir(parents=True)
    newer.write_bytes((tools / "sim" / "libcuda.so.1").read_bytes())
    body = """
    #include <link.h>
    static int drivers;
    static int count(struct dl_phdr_info *i, size_t n, void *w)
    {
        (void)n, (void)w;
        drivers += strstr(i->dlpi_name, "libcuda") != NULL;
        return 0;
    }
    static void *h;
    static void *find(const char *n) { return dlsym(h, n); }
    int main(void)
    {
        h = dlopen("libcuda.so.1", RTLD_NOW);
        struct link_map *m = h;
        int refused = too_much(find);
        dl_iterate_phdr(count, NULL);
        printf("%d %d %d", refused, strstr(m->l_name, "/cuda/compat/") != NULL, drivers);
        return 0;
    }"""
    where = {"LD_LIBRARY_PATH": f"{newer.parent}:{tools / 'sim'}"}
    assert run(limited, program(tmp_path, tools, "newer-driver", body, "-ldl"), **where) == "2 1 1"


def test_a_driver_that_answers_with_inner_addresses_is_still_limited(
    limited: Container, tmp_path: Path, tools: Path
) -> None:
    """A shim hands out functions of another library; versions tell which function it must be."""
    shim = tmp_path / "shim" / "libcuda.so.1"
    shim.parent.mkdir()
    names = [
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuMemAlloc_v2",
        "cuCtxGetCurrent",
        "cuCtxGetDevice",
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetUuid_v2",
        "cuMemFree_v2",
    ]
    forwards = "\n".join(
        f'long {n}(long a, long b, long c, long d) {{ return ((long (*)(long, long, long, long))inner("{n}"))(a, b, c, d); }}'
        for n in names
    )
    (tmp_path / "shim.c").write_text(
        f"""
        #include <dlfcn.h>
        #include <string.h>
        static void *lib;
        static void *inner(const char *n) {{
            if (!lib)
                lib = dlopen("{tools}/sim/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
            return dlsym(lib, n);
        }}
        {forwards}
        int cuGetProcAddress_v2(const char *s, void **p, int v, unsigned long f, int *st)
        {{ return ((int (*)(const char *, void **, int, unsigned long, int *))inner("cuGetProcAddress_v2"))(s, p, v, f, st); }}
        """
    )
    compile_c([tmp_path / "shim.c"], shim, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl", "-Wno-error")
    body = f"""
    static CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    static void *find(const char *n)
    {{
        char base[64];
        void *p = NULL;
        strcpy(base, n);
        if (strlen(base) > 3 && strcmp(base + strlen(base) - 3, "_v2") == 0)
            base[strlen(base) - 3] = 0;
        return ask(base, &p, 12000, 0, NULL) ? NULL : p;
    }}
    int main(void)
    {{
        void *h = dlopen("{shim}", RTLD_NOW);
        *(void **)&ask = dlsym(h, "cuGetProcAddress_v2");
        printf("%d", too_much(find));
        return 0;
    }}"""
    assert run(limited, program(tmp_path, tools, "shimmed", body, "-ldl")) == "2"


def test_a_library_that_uses_the_gpu_in_its_constructor_is_limited(
    limited: Container, tmp_path: Path, tools: Path
) -> None:
    (tmp_path / "early.c").write_text(
        HEAD
        + """
    static void *h;
    static void *find(const char *n) { return dlsym(h, n); }
    int early;
    __attribute__((constructor)) static void begin(void) { h = dlopen("libcuda.so.1", RTLD_NOW); early = too_much(find); }"""
    )
    compile_c([tmp_path / "early.c"], tmp_path / "libearly.so", "-shared", "-fPIC", "-ldl")
    body = 'extern int early; int main(void) { printf("%d", early); return 0; }'
    flags = [f"-L{tmp_path}", "-learly", f"-Wl,-rpath,{tmp_path}"]
    assert run(limited, program(tmp_path, tools, "constructed", body, *flags)) == "2"


def test_without_a_driver_the_exported_names_say_so(limited: Container, tmp_path: Path, tools: Path) -> None:
    body = """
    __attribute__((weak)) CUresult cuInit(unsigned);
    int main(void) { printf("%d", cuInit ? (int)cuInit(0) : 0); return 0; }"""
    assert run(limited, program(tmp_path, tools, "weak", body), LD_LIBRARY_PATH="") == "100"


@pytest.mark.skipif(bool(SANITIZE), reason="of the shipped build alone")
def test_the_library_needs_only_an_old_c_library(tools: Path) -> None:
    library = str(tools / "limiter" / "libvgpu.so")
    needed = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"NEEDED\s+(\S+)", needed) == ["libc.so.6"]
    table = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"\*UND\*.*GLIBC_([\d.]+)", table)}
    assert max(versions) <= (2, 17)
    exported = {line.split()[-1] for line in table.splitlines() if " g " in line and "*UND*" not in line}
    assert {"dlsym", "dlvsym"} <= exported
    assert all(re.match(r"(cu[A-Z]|nvml|dl(v)?sym$|GLIBC|HAMI)", name) for name in exported)
