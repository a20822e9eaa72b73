"""Finding functions: who gets a stand-in, and that everybody else is left alone."""

import subprocess

from hami_backend_mock.certify.case import case, expect, expect_that
from hami_backend_mock.certify.elf import exported_names
from hami_backend_mock.certify.stand import OUT_OF_MEMORY, Failed, Program, Stand

NOT_INITIALIZED, NO_DEVICE, INVALID_VALUE, NOT_FOUND = 3, 100, 1, 500
NVML_UNINITIALIZED = 1
SYMBOL_ABSENT, SYMBOL_TOO_NEW = 1, 2


def _limited(program: Program) -> None:
    program.must("alloc 0 600")
    expect("code of 500 MiB more than 400 MiB that are left", program("alloc 1 500"), OUT_OF_MEMORY)
    program.must("alloc 1 380", "free 0", "alloc 2 580")


def _program(stand: Stand, how: str) -> None:
    node = stand.node()
    _limited(stand.container(node, mib=1000).run(how))


@case("program-linked", "A program that is linked with the driver is held to its limit.")
def program_linked(stand: Stand) -> None:
    _program(stand, "linked")


@case("program-dlsym", "A program that finds the driver's functions with dlsym is held to its limit.")
def program_dlsym(stand: Stand) -> None:
    _program(stand, "dlsym")


@case("program-lookup", "A program that finds them with cuGetProcAddress is held to its limit.")
def program_lookup(stand: Stand) -> None:
    _program(stand, "lookup")


def _per_thread(stand: Stand, how: str) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run(how)
    before = node.held("tenant")
    program.must("async 0 600")
    expect("code of 500 MiB more, in stream order", program("async 1 500"), OUT_OF_MEMORY)
    program.must("freeasync 0", "sync", "pool 0 0", "frompool 1 600 0")
    expect("code of 500 MiB more, from a pool", program("frompool 2 500 0"), OUT_OF_MEMORY)
    program.must("freeasync 1", "sync", "endpool 0")
    program.must("alloc 3 980", "free 3")
    expect("MiB of the card after everything was freed", node.held("tenant"), before)


@case("per-thread-linked", "A program built for a default stream per thread, and linked, is held to its limit.")
def per_thread_linked(stand: Stand) -> None:
    _per_thread(stand, "per-thread")


@case("per-thread-lookup", "A program that asks cuGetProcAddress for the per-thread forms is held to its limit.")
def per_thread_lookup(stand: Stand) -> None:
    _per_thread(stand, "lookup-per-thread")


@case("next-of-caller", "RTLD_NEXT and RTLD_DEFAULT mean what they mean for the object that asks.")
def next_of_caller(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).spawn()
    plugin = node.drivers / "certify" / "libhami-sim-plugin.so"
    expect("what a plugin finds after itself", program.ask(f"plugin {plugin} asks_next").first, 41)
    expect("what a plugin finds in its own scope", program.ask(f"plugin {plugin} asks_default").first, 41)


@case("next-twice", "The second look-up of a name gives what the first gave.")
def next_twice(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).spawn()
    for name in ("printf", "malloc"):
        expect(f"{name} after the program, found and the same again", program.ask(f"nexttwice {name}")[1:], (1, 1))


@case("quiet-lookups", "Looking up names that only begin like the driver's starts nothing.")
def quiet_lookups(stand: Stand) -> None:
    one = stand.container(stand.node(), mib=1000)
    program = one.spawn()
    for name in ("curl_easy_init", "cublasCreate_v2", "cudaMalloc", "cuMemAlloc_v2"):
        expect(f"{name} in the program's scope, where nothing defines it", program.ask(f"default {name}").first, 0)
    expect_that(not one.region.exists(), "no region file before the driver is used", "one was made")


@case("foreign-names", "A library's own function is found through its handle, whatever it is called.")
def foreign_names(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    plugin = node.drivers / "certify" / "libhami-sim-plugin.so"
    expect("what the plugin's own cuMemAlloc_v2 answers", program(f"foreign {plugin}"), 55)


def _called(stand: Stand, symbol: str, version: int, flags: int) -> str:
    node = stand.node()
    program = stand.container(node, mib=1000).run(HAMI_SIM_LOG=str(node.log))
    before = len(node.calls())
    expect("code of the look-up, and an address", program.ask(f"calladdress {symbol} {version} {flags}")[:2], (0, 1))
    called = [name for name in node.calls()[before:] if name.startswith(symbol)]
    return called[-1] if called else "nothing"


@case("lookup-flags", "cuGetProcAddress gives the per-thread form of a function to who asks for it.")
def lookup_flags(stand: Stand) -> None:
    for symbol in ("cuStreamSynchronize", "cuStreamQuery"):
        expect("the function that was called", _called(stand, symbol, 12000, 2), f"{symbol}_ptsz")
        expect("the function that was called", _called(stand, symbol, 12000, 0), symbol)


@case("lookup-version", "cuGetProcAddress gives the form of a function that the asked version has.")
def lookup_version(stand: Stand) -> None:
    expect("the function that was called", _called(stand, "cuCtxSynchronize", 12000, 0), "cuCtxSynchronize")
    expect("the function that was called", _called(stand, "cuCtxSynchronize", 13000, 0), "cuCtxSynchronize_v2")
    expect("the function that was called", _called(stand, "cuCtxDestroy", 2000, 0), "cuCtxDestroy")


@case(
    "lookup-absent", "Where the driver says that a version lacks a function, cuGetProcAddress says so and gives none."
)
def lookup_absent(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    told = "code, status, address"
    expect(
        f"{told} of a later version's function",
        program.ask("procaddress cuMemAllocAsync 11000 0"),
        (0, SYMBOL_TOO_NEW, 0),
    )
    expect(
        f"{told} of an unknown function", program.ask("procaddress cuMemAllocNothing 12000 0"), (0, SYMBOL_ABSENT, 0)
    )
    code = program("procaddress cuMemAlloc 99000 0")
    expect("code where the version is later than the driver", code, INVALID_VALUE)


@case("lookup-old-form", "So does its older form with four arguments.")
def lookup_old_form(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    expect("code, address of what is there", program.ask("procaddressold cuMemAllocAsync 11030 0")[:2], (0, 1))
    code, address, _ = program.ask("procaddressold cuMemAllocAsync 11000 0")
    expect("address of a later version's function", address, 0)
    code = program("procaddressold cuMemAlloc 99000 0")
    expect("code where the version is later than the driver", code, INVALID_VALUE)


@case("before-init", "A linked function that is called before cuInit answers as the driver does.")
def before_init(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000)
    for order in ("count", "info", "alloc 0 10", "sync"):
        expect(f"code of {order!r} as the first call", container.spawn("linked")(order), NOT_INITIALIZED)


@case("before-nvml-init", "The management library says that it is not initialised, until it is.")
def before_nvml_init(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).spawn()
    expect("code of memory info before nvmlInit", program("nvmlearly"), NVML_UNINITIALIZED)


@case("missing-function", "A function that the driver lacks is missing; nothing crashes.")
def missing_function(stand: Stand) -> None:
    _on_old_driver(stand, "lacking")


@case("older-form", "Where the driver has an older form of a function alone, the newer one is missing.")
def older_form(stand: Stand) -> None:
    _on_old_driver(stand, "newer")
    node = stand.node()
    old = f"{node.drivers / 'certify' / 'old'}:{node.drivers}"
    program = stand.container(node, mib=1000, name="other").run("dlsym", LD_LIBRARY_PATH=old)
    expect("cuCtxSynchronize_v2 of an old driver's handle", program.ask("has cuCtxSynchronize_v2").first, 0)


def _on_old_driver(stand: Stand, order: str) -> None:
    """Linked programs end where the loader finds a function nowhere; that is what they do without a limiter, too."""
    node = stand.node()
    old = f"{node.drivers / 'certify' / 'old'}:{node.drivers}"
    program = stand.container(node, mib=1000).run("linked", LD_LIBRARY_PATH=old)
    try:
        code = program(order)
    except Failed:
        if program.process.poll() != 127:
            raise
        return
    expect_that(code not in (0, INVALID_VALUE), "an error that says so, or the loader's own", f"code {code}")


@case("no-driver", "Where no driver is installed, programs start, and who asks is told so.")
def no_driver(stand: Stand) -> None:
    one = stand.container(stand.node(), mib=1000)
    env = one.environment(LD_LIBRARY_PATH="")
    done = subprocess.run(["/bin/sh", "-c", "exit 7"], env=env, capture_output=True, timeout=20)
    expect("exit status of a program that uses no driver", done.returncode, 7)
    expect("what it printed", done.stderr.decode(), "")
    expect("code of a weak reference to cuInit", one.spawn(LD_LIBRARY_PATH="")("weakinit"), NO_DEVICE)


@case("exports", "The library exports the driver's names and the loader's, and none that a program could have.")
def exports(stand: Stand) -> None:
    foreign = [
        name
        for name in exported_names(stand.library)
        if not name.startswith(("cu", "nvml", "dl", "GLIBC_", "HAMI", "_"))
    ]
    expect_that(not foreign, "no other exported names", ", ".join(foreign[:8]))


@case("two-files", "One process has one account, also where the library lies in two places.")
def two_files(stand: Stand) -> None:
    node = stand.node()
    one = stand.container(node, mib=1000)
    copy = one.folder / "copy" / "libvgpu.so"
    copy.parent.mkdir()
    copy.write_bytes(stand.library.read_bytes())
    if (one.folder / "limits").exists():
        (copy.parent / "limits").write_text((one.folder / "limits").read_text())
    room = "glibc.rtld.optional_static_tls=16384"  # for a library that opens itself
    program = one.run("linked", CUDA_REDIRECT=str(copy), GLIBC_TUNABLES=room)
    before = program.used()
    program.must("alloc 0 600", "freelooked 0")
    expect("MiB in use after a block was freed by a function that was looked up", program.used(), before)
    program.must("alloc 0 900")


@case("nvml-arguments", "Functions of the management library get all their arguments.")
def nvml_arguments(stand: Stand) -> None:
    node = stand.node()
    bare = stand.container(node, name="bare").spawn(LD_PRELOAD="").must("nvmlinit").ask("nvmlclock 0")
    seen = stand.container(node, mib=1000).spawn().must("nvmlinit").ask("nvmlclock 0")
    expect("code and clock", seen, bare)


@case("lookup-while-loading", "A driver may look names up while it is being loaded.")
def lookup_while_loading(stand: Stand) -> None:
    node = stand.node()
    old = f"{node.drivers / 'certify' / 'old'}:{node.drivers}"
    program = stand.container(node, mib=1000).spawn("dlsym", LD_LIBRARY_PATH=old)
    expect("cuInit in the program's scope before a driver is there", program.ask("default cuInit").first, 0)
    _limited(program.start())


@case("lookup-cost", "A look-up costs no more than a microsecond beyond the driver's own.")
def lookup_cost(stand: Stand) -> None:
    node = stand.node()
    names = ("cuMemAlloc", "cuStreamGetCtx")
    bare = stand.container(node, name="bare").run(LD_PRELOAD="")
    under = stand.container(node, mib=1000).run()
    for name in names:
        without, cost = (program.ask(f"lookupcost {name}").first for program in (bare, under))
        expect_that(cost <= without + 1000, f"{name} in at most {without} + 1000 ns", f"{cost} ns")
