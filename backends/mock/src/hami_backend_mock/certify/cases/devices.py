"""Several cards: which limit is whose."""

from hami_backend_mock.certify.case import case, expect, expect_that
from hami_backend_mock.certify.stand import CARD, MIB, OUT_OF_MEMORY, Container, Stand

ONE, TWO, THREE = 1400, 2400, 3400


def _three(stand: Stand) -> Container:
    return stand.container(stand.node(f"3x{CARD}"), mib=[ONE, TWO, THREE])


def _totals(container: Container, visible: str, count: int, *before: str) -> list[int]:
    program = container.spawn(CUDA_VISIBLE_DEVICES=visible).must("init", *before)
    return [program.ask(f"total {device}").first // MIB for device in range(count)]


def _held(container: Container, visible: str, device: int, limit: int, *before: str) -> None:
    program = container.run(device=device, CUDA_VISIBLE_DEVICES=visible).must(*before)
    code = program(f"alloc 0 {limit}")
    expect(f"code of {limit} MiB beside a context, on a card of {limit} MiB", code, OUT_OF_MEMORY)
    program.must(f"alloc 0 {limit - 500}")
    program.end()


@case("devices-reordered", "A card keeps its limit, in whatever order a program is shown the cards.")
def devices_reordered(stand: Stand) -> None:
    container = _three(stand)
    expect("totals under 2,0", _totals(container, "2,0", 2), [THREE, ONE])
    expect("totals under 1,2,0", _totals(container, "1,2,0", 3), [TWO, THREE, ONE])
    _held(container, "1,2,0", 0, TWO)
    _held(container, "1,2,0", 2, ONE)


@case("devices-by-uuid", "A card keeps its limit where a program is shown cards by their UUIDs.")
def devices_by_uuid(stand: Stand) -> None:
    container = _three(stand)
    uuids = container.node.uuids()
    expect("totals", _totals(container, f"{uuids[1]},{uuids[2]}", 2), [TWO, THREE])
    _held(container, f"{uuids[2]},{uuids[1]}", 1, TWO)


@case("devices-after-nvml", "Starting the management library changes no card's limit.")
def devices_after_nvml(stand: Stand) -> None:
    container = _three(stand)
    expect("totals under 2,0", _totals(container, "2,0", 2, "nvmlinit", "nvmlmemory 0"), [THREE, ONE])
    _held(container, "2,0", 1, ONE, "nvmlinit", "nvmlmemory 0")


@case("twenty-cards", "More cards than a region has room for disturb no limit.")
def twenty_cards(stand: Stand) -> None:
    node = stand.node(f"20x{CARD}")
    container = stand.container(node, mib=[ONE])
    program = container.run()
    expect("code of more than the limit", program(f"alloc 0 {ONE}"), OUT_OF_MEMORY)
    program.must("alloc 0 900")
    expect("total of the first card", program.ask("total 0").first // MIB, ONE)
    if container.number(0, 4) == 19920718:
        expect("limit of the first card in the region", container.number(1600) // MIB, ONE)
        expect_that(container.number(56) <= 16, "at most 16 devices in the region", container.number(56))
    expect("code of a second program", container.spawn()("init"), 0)


@case("size-words", "A size that is not understood never becomes no limit; 1gb is a gigabyte.", only="environment")
def size_words(stand: Stand) -> None:
    node = stand.node()
    for word in ("-1", "99999999999999999999", "1e3m", "-1m"):
        container = stand.container(node, mib=[1000], name=f"size{len(word)}", told="environment")
        program = container.spawn(CUDA_DEVICE_MEMORY_LIMIT_0=word)
        if program("init") or program("context 0"):
            continue
        expect_that(program("alloc 0 20000") != 0, f"20000 MiB to be refused under {word!r}", "they were granted")
    for word in ("1gb", "1GiB", "1g ", "1024Mi"):
        name = f"good-{word.strip()}"
        program = stand.container(node, mib=[None], name=name, told="environment").run(CUDA_DEVICE_MEMORY_LIMIT_0=word)
        expect(f"total under {word!r}", program.ask("total 0").first, 1 << 30)
        expect(f"code of 100 MiB under {word!r}", program("alloc 0 100"), 0)
