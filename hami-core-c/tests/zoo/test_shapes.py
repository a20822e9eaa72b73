"""Every way in which a process comes to be or ends: it is held to its limit, and neither it nor its neighbours crash or hang."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import (
    CONTEXT_MIB,
    MIB,
    SANITIZE,
    Container,
    Node,
    Run,
    compile_c,
    line,
    runtimes,
    said,
    start,
    tenant_for,
)

ROOT = Path(__file__).resolve().parents[2]
OUT_OF_MEMORY = 2
MakeNode, Make = Callable[..., Node], Callable[..., Container]


@pytest.mark.parametrize("shape", ["vfork", "spawn", "system"])
def test_a_program_started_by_another_has_its_own_place(
    pair: Container, run: Run, judged: Callable[[], None], shape: str
) -> None:
    said = run(pair, shape)
    assert said["took"] == 0
    assert said["child"] == 0
    assert said["used"] == CONTEXT_MIB + 300  # the child's share is back
    assert said["more"] == 0
    judged()


def test_what_a_vforked_child_runs_at_its_exit_is_not_the_parents_end(pair: Container, run: Run) -> None:
    said = run(pair, "vfork-exit")
    assert said["used"] == CONTEXT_MIB + 300
    assert said["more"] == 0


@pytest.mark.skipif(SANITIZE == "thread", reason="its runtime knows only threads that were made by pthread_create")
def test_tasks_made_by_hand_leave_the_books_alone(pair: Container, run: Run) -> None:
    said = run(pair, "clone")
    assert said["child"] == 0
    assert said["used"] == CONTEXT_MIB + 300
    assert said["more"] == 0


def test_a_program_that_becomes_another_gives_everything_back(
    tenant: Container, run: Run, judged: Callable[[], None]
) -> None:
    assert run(tenant, "exec", "1000")["took"] == 0  # it held 300 before
    assert run(tenant, "exec", "1001")["took"] == OUT_OF_MEMORY
    judged()


@pytest.mark.skipif(SANITIZE == "thread", reason="its runtime cannot wait for the first thread")
def test_a_process_whose_first_thread_is_gone_still_holds_what_it_holds(
    pair: Container, zoo: Path, judged: Callable[[], None]
) -> None:
    alone = start(pair, zoo, "leader-gone")
    assert line(alone) == "alone 0"
    assert Path(f"/proc/{alone.pid}/stat").read_text().split()[2] == "Z"
    other = pair.run()
    assert other.used() == 2 * CONTEXT_MIB + 400
    assert other("alloc 0 601") == OUT_OF_MEMORY
    alone.kill()
    alone.wait()
    assert other("alloc 0 1000") == 0
    judged()


def test_a_daemon_outlives_who_started_it(pair: Container, zoo: Path, judged: Callable[[], None]) -> None:
    daemon = start(pair, zoo, "daemon", "500")
    assert line(daemon) == "took 0"
    daemon.wait()
    other = pair.run()
    assert other("alloc 0 600") == OUT_OF_MEMORY
    assert daemon.stdin is not None
    daemon.stdin.close()
    deadline = time.monotonic() + 60
    while other("alloc 0 1000") != 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    judged()


def test_children_of_a_busy_process_end_by_themselves(tenant: Container, run: Run) -> None:
    assert run(tenant, "fork-storm", "8" if SANITIZE else "40")["wrong"] == 0


def test_a_process_may_end_in_the_middle_of_everything(tenant: Container, run: Run) -> None:
    for _ in range(5):
        run(tenant, "exit-busy")
    for i in range(8):
        run(tenant, "exit-handler", str(i), status=7)
    program = tenant.run()
    assert program.used() == CONTEXT_MIB
    assert program("alloc 0 1000") == 0


def test_a_thread_with_a_small_stack_may_use_the_device(tenant: Container, run: Run) -> None:
    assert run(tenant, "small-stack")["took"] == 0


def test_a_process_that_can_open_no_file_any_more_is_still_held(tenant: Container, run: Run) -> None:
    said = run(tenant, "few-files")
    assert (said["took"], said["too much"]) == (0, OUT_OF_MEMORY)


def test_three_hundred_processes_start_at_once(make_node: MakeNode, make_container: Make, zoo: Path) -> None:
    """All get their context; 10 MiB each is more than is left, so somebody is refused. In the end everything is back."""
    count, context = (20 if SANITIZE else 150), 526
    node = make_node("2xH200")
    one = make_container(node)
    limit = count * (context + 8)
    one.limits(*(f"{uuid} memory={limit * MIB} context={context * MIB}" for uuid in node.uuids()))
    for device in ("0", "1"):
        node.sim("limit", one.name, device, f"memory_mib={limit}", "slack_mib=0")
    processes = [start(one, zoo, "hold", "10", CUDA_VISIBLE_DEVICES=str(i % 2)) for i in range(2 * count)]
    took = [line(process) for process in processes]
    assert set(took) == {"took 0", "took 2"}
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert {process.wait(120) for process in processes} == {0}
    assert json.loads(node.sim("judge", check=False))[0]["violations"] == 0
    assert one.run().used() == context


def test_a_program_that_never_touches_a_device_is_as_without_us(tenant: Container, zoo: Path) -> None:
    env = tenant.environment()
    bare = {name: value for name, value in env.items() if name != "LD_PRELOAD"}
    if runtimes():
        bare["LD_PRELOAD"] = " ".join(runtimes())

    def facts(environment: dict[str, str]) -> tuple[list[str], int, set[str], int]:
        process = subprocess.Popen([str(zoo), "idle"], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert line(process) == "idle 0"
            at = Path("/proc", str(process.pid))
            mapped = {words[5] for words in map(str.split, (at / "maps").read_text().splitlines()) if len(words) > 5}
            status = dict(one.split(":\t", 1) for one in (at / "status").read_text().splitlines() if ":\t" in one)
            return sorted(os.listdir(at / "fd")), len(os.listdir(at / "task")), mapped, int(status["SigCgt"], 16)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    ours, others = facts(env), facts(bare)
    library = str(tenant.library.resolve())
    assert ours[:2] == others[:2]
    assert ours[3] == others[3]
    assert {path for path in ours[2] - others[2] if not path.startswith("/tmp/tsan.")} == {library}
    assert sorted(one.name for one in tenant.folder.iterdir()) == ["libvgpu.so", "limits"]


def test_a_static_program_is_as_without_us(tenant: Container, tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("static"); return 0; }\n')
    program = tmp_path / "static"
    subprocess.run(["cc", "-static", str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], env=tenant.environment(), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("static\n", "")
    assert not tenant.region.exists()


HOSTILE = """
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* As a sanitizer's runtime: it stands in for functions, and none of them can be called before it has started. */
static int ready;
static void check(void) { if (!ready) abort(); }
int strcmp(const char *a, const char *b)
{
    check();
    while (*a && *a == *b) a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}
int strncmp(const char *a, const char *b, size_t n)
{
    check();
    for (; n && *a && *a == *b; n--) a++, b++;
    return n ? (unsigned char)*a - (unsigned char)*b : 0;
}
size_t strlen(const char *s) { check(); size_t n = 0; while (s[n]) n++; return n; }
static int (*walk)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
int dl_iterate_phdr(int (*f)(struct dl_phdr_info *, size_t, void *), void *d) { check(); return walk(f, d); }
__attribute__((constructor)) static void start(void)
{
    walk = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
    void *none = dlsym(RTLD_NEXT, "no_such_function_anywhere");
    ready = walk != NULL && none == NULL;
    if (!ready) _Exit(9);
}
"""


@pytest.mark.skipif(bool(SANITIZE), reason="a sanitizer's runtime itself calls what must not be called yet")
@pytest.mark.parametrize("order", ["before", "after"])
def test_who_looks_up_before_anything_is_ready_is_answered(
    tenant: Container, tmp_path: Path, run: Run, order: str
) -> None:
    (tmp_path / "hostile.c").write_text(HOSTILE)
    hostile = compile_c([tmp_path / "hostile.c"], tmp_path / "hostile.so", "-shared", "-fPIC", "-fno-builtin", "-ldl")
    both = [str(hostile), str(tenant.library)]
    preload = " ".join(runtimes() + (both if order == "before" else both[::-1]))
    assert run(tenant, "take", "1001", LD_PRELOAD=preload)["took"] == OUT_OF_MEMORY
    assert run(tenant, "take", "1000", LD_PRELOAD=preload)["took"] == 0


@pytest.mark.skipif(bool(SANITIZE), reason="it is about another build than this one")
@pytest.mark.parametrize("kind", ["address", "thread", "undefined"])
def test_programs_under_a_sanitizer_are_limited_like_others(
    tenant: Container, tmp_path: Path, zoo: Path, kind: str
) -> None:
    program = tmp_path / kind
    static = {"address": ["-static-libasan"], "thread": ["-static-libtsan"]}.get(kind, [])
    flags = [f"-fsanitize={kind}", *static, f"-I{zoo.parent}"]
    source = Path(__file__).with_name("zoo.c")
    include = f"-I{Path(__file__).resolve().parents[2] / 'src'}"
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", "-g", include, *flags, str(source), "-o", str(program), "-ldl", "-pthread"], check=True
    )
    env = tenant.environment(ASAN_OPTIONS="detect_leaks=0")
    for mib, answer in (("1001", OUT_OF_MEMORY), ("1000", 0)):
        done = subprocess.run([str(program), "take", mib], env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, said(done.stdout)) == (0, {"took": answer}), done.stderr


def test_a_driver_whose_own_calls_come_through_us_is_charged_once(
    make_node: MakeNode, make_container: Make, tools: Path, run: Run, judged: Callable[[], None]
) -> None:
    open_driver = tools / "sim-open"
    open_driver.mkdir(exist_ok=True)
    node = make_node()
    one = tenant_for(1, node, make_container)
    build_open_driver(tools, open_driver)
    where = {"LD_LIBRARY_PATH": str(open_driver)}
    said = run(one, "nothing", **where)
    assert (said["used"], said["more"]) == (CONTEXT_MIB + 300, 0)
    assert run(one, "take", "1001", **where)["took"] == OUT_OF_MEMORY


def build_open_driver(tools: Path, target: Path) -> None:
    """The driver linked without -Bsymbolic, of the objects that are there already."""
    library = target / "libcuda.so.1"
    work = tools / "sim" / "work"
    if library.exists() and library.stat().st_mtime > (tools / "sim" / "libcuda.so.1").stat().st_mtime:
        return
    found = re.search(r"^MODEL = \((.*?)\)", (ROOT / "simulator" / "build.py").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    model = [*(Path(name).stem for name in re.findall(r'"(.+?)"', found[1])), "profiles", "cuda_exports"]
    parts = [work / f"{name}.o" for name in model] + sorted(work.glob("driver_*.o"))
    shared = ["-shared", "-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={work / 'libcuda.map'}"]
    sanitize = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
    subprocess.run(["cc", *sanitize, *shared, *map(str, parts), "-o", str(library), "-pthread", "-lm"], check=True)


def test_stopped_processes_hold_up_their_neighbours_for_a_bounded_time(
    pair: Container, judged: Callable[[], None]
) -> None:
    """Stopped at any moment, also inside the ledger: others go on, or are refused, and all is well when it goes on."""
    one, two = pair.run(), pair.run()
    one.send("grind 60 20")
    for _ in range(20):
        one.process.send_signal(signal.SIGSTOP)
        assert two("alloc 0 10") in (0, OUT_OF_MEMORY)
        two("free 0")
        one.process.send_signal(signal.SIGCONT)
    one.kill()
    assert two("alloc 0 1000") == 0
    judged()
