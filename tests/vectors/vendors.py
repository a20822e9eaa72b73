"""Families of vendors whose backends are not installed here, as tables over the device configuration.

They let the vectors of those vendors hold the table mechanism to account before their backends exist.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hami_core_py.hooks import API, hookimpl
from hami_core_py.models.answers import Reason
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.devices import Profile
from hami_core_py.models.families import (
    SHARED_LOCK,
    V210,
    AdmissionRule,
    AnnotatedDevices,
    CapacityDevices,
    CoreRule,
    Family,
    Group,
    Handshake,
    MemoryRule,
    NodeLock,
    Placing,
    Resources,
    Selectors,
    WhileCapacity,
)
from hami_core_py.models.requests import CorePercent, CoreUnits, MemoryMib

Section = Mapping[str, Any]

NO_CORES = CoreUnits(0)
XPU_STEPS = tuple(
    Profile(name="", memory_mib=mib, core_units=core) for mib, core in ((24576, 25), (49152, 50), (98304, 100))
)
XPU_SELECTORS = Selectors(
    ids=("hami.io/use-xpu-uuid", "baidu.com/use-gpuuuid"),
    not_ids=("hami.io/no-use-xpu-uuid", "baidu.com/nouse-gpuuuid"),
)


class Vendors:
    """One plugin that owns the families of all these vendors."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.families = tuple(other_families(config))

    @hookimpl
    def hami_backend(self) -> BackendInfo:
        """Who it is."""
        return BackendInfo(name="vendors", vendor="all others", api=API)

    @hookimpl
    def hami_families(self) -> Sequence[Family]:
        """What it owns."""
        return self.families


def other_families(config: Mapping[str, Any]) -> Iterator[Family]:
    """The family of every section of the configuration but the one whose backend is installed."""
    makers = {
        "cambricon": _cambricon,
        "hygon": _hygon,
        "metax": _metax,
        "enflame": _enflame,
        "mthreads": _mthreads,
        "kunlun": _kunlun,
        "awsneuron": _awsneuron,
        "amd": _amd,
        "vastai": _vastai,
        "biren": _biren,
    }
    for section, make in makers.items():
        if section in config:
            yield from make(config[section])
    for model in config.get("iluvatars", ()):
        yield _iluvatar(model)
    for model in config.get("vnpus", {}).get("configs", ()):
        yield _ascend(model)


def _spellings(stem: str, **fields: Any) -> V210:
    keys = {"allocated": f"hami.io/{stem}-devices-allocated", "to_allocate": f"hami.io/{stem}-devices-to-allocate"}
    return V210(**{**keys, **fields})


def _cambricon(section: Section) -> Iterator[Family]:
    yield Family(
        name="MLU",
        resources=Resources(
            count=section["resourceCountName"],
            memory=section["resourceMemoryName"],
            core=section["resourceCoreName"],
        ),
        memory=MemoryRule(unit_mib=256),
        inventory=CapacityDevices(role="core", infix="cambricon-mlu", per_device=100, slots=100),
        selectors=Selectors(ids=("cambricon.com/use-gpuuuid",), not_ids=("cambricon.com/nouse-gpuuuid",)),
        lock=NodeLock(key="cambricon.com/dsmlu.lock", expires_seconds=120, names_pod=False),
        v210=_spellings("cambricon-mlu"),
    )


def _hygon(section: Section) -> Iterator[Family]:
    yield Family(
        name="DCU",
        resources=Resources(
            count=section["resourceCountName"],
            memory=section["resourceMemoryName"],
            core=section["resourceCoreName"],
        ),
        memory=MemoryRule(unit_mib=section.get("memoryFactor") or 1),
        inventory=AnnotatedDevices(key="hami.io/node-dcu-register", form="text"),
        selectors=Selectors(
            ids=("hygon.com/use-gpuuuid",),
            not_ids=("hygon.com/nouse-gpuuuid",),
            models=("hygon.com/use-dcutype",),
            not_models=("hygon.com/nouse-dcutype",),
        ),
        liveness=Handshake("hami.io/node-handshake-dcu"),
        lock=SHARED_LOCK,
        v210=_spellings("dcu"),
    )


def _metax(section: Section) -> Iterator[Family]:
    yield Family(
        name="Metax-GPU",
        resources=Resources(count=section["resourceCountName"]),
        inventory=CapacityDevices(role="count", infix="metax", memory_mib=65536),
        liveness=WhileCapacity("count"),
        v210=_spellings("metax-gpu"),
    )
    yield Family(
        name="Metax-SGPU",
        resources=Resources(
            count=section["resourceVCountName"],
            memory=section["resourceVMemoryName"],
            core=section["resourceVCoreName"],
            read_from="limits",
        ),
        memory=MemoryRule(unit_mib=1024, bytes_with_suffix=True),
        inventory=AnnotatedDevices(key="metax-tech.com/node-gpu-devices", form="own"),
        selectors=Selectors(ids=("metax-tech.com/use-gpuuuid",), not_ids=("metax-tech.com/nouse-gpuuuid",)),
        lock=SHARED_LOCK,
        v210=_spellings("metax-sgpu"),
    )


def _enflame(section: Section) -> Iterator[Family]:
    yield Family(
        name="GCU",
        resources=Resources(count=section["resourceNameGCU"]),
        inventory=CapacityDevices(role="count", infix="GCU", memory_mib=100),
        placing=Placing(exclusive=True),
        liveness=WhileCapacity("count"),
        v210=_spellings("enflame-gcu"),
    )
    yield Family(
        name="Enflame",
        resources=Resources(
            count=section["resourceNameDRSGCU"],
            memory=section["resourceNameGCUMemory"],
            core=section["resourceNameGCUCore"],
        ),
        inventory=AnnotatedDevices(key="enflame.com/gcu-drs-capacity", form="own"),
        profile_covers=frozenset({"memory", "core"}),
        v210=_spellings("enflame-vgpu", to_allocate=None),
    )


def _mthreads(section: Section) -> Iterator[Family]:
    yield Family(
        name="Mthreads",
        resources=Resources(
            count=section["resourceCountName"],
            memory=section["resourceMemoryName"],
            core=section["resourceCoreName"],
        ),
        memory=MemoryRule(unit_mib=512, per="container"),
        core=CoreRule(default=NO_CORES, per="container"),
        inventory=CapacityDevices(role="core", infix="mthreads", per_device=16, slots=100, core_units=16),
        placing=Placing(one_device_per_pod=True),
        selectors=Selectors(ids=("mthreads.ai/use-gpuuuid",), not_ids=("mthreads.ai/nouse-gpuuuid",)),
        v210=_spellings("mthreads-vgpu", to_allocate=None),
    )


def _kunlun(section: Section) -> Iterator[Family]:
    yield Family(
        name="kunlun",
        resources=Resources(count=section["resourceCountName"]),
        core=CoreRule(default=NO_CORES),
        inventory=CapacityDevices(role="count", infix="kunlun", slots=100, memory_mib=98304, numa_nodes=2),
        placing=Placing(exclusive=True, counts=frozenset({1, 2, 4, 8})),
        selectors=XPU_SELECTORS,
        v210=V210(allocated="hami.io/kunlun-allocated"),
    )
    yield Family(
        name="XPU",
        resources=Resources(count=section["resourceVCountName"], memory=section["resourceVMemoryName"]),
        inventory=AnnotatedDevices(key="hami.io/node-register-xpu"),
        placing=Placing(accounts=frozenset({"memory"}), counts=frozenset({1, 2, 4, 8})),
        admission=AdmissionRule(write_memory="if-asked"),
        profiles=XPU_STEPS,
        selectors=XPU_SELECTORS,
        liveness=Handshake("hami.io/node-handshake-xpu"),
        lock=SHARED_LOCK,
        v210=_spellings("xpu"),
    )


def _awsneuron(section: Section) -> Iterator[Family]:
    yield Family(
        name="AWSNeuron",
        resources=Resources(count=section["resourceCountName"], core=section["resourceCoreName"]),
        selectors=Selectors(ids=("aws.amazon.com/use-neuron-uuid",), not_ids=("aws.amazon.com/nouse-neuron-uuid",)),
        v210=_spellings("aws-neuron", to_allocate=None, cores_field="cells-mask"),
    )


def _amd(section: Section) -> Iterator[Family]:
    yield Family(
        name="AMD",
        resources=Resources(
            count=section["resourceCountName"],
            memory=section["resourceMemoryName"],
            core=section["resourceCoreName"],
            read_from="limits",
        ),
        core=CoreRule(asked_in="percent", default=CorePercent(100), lowest=1, highest=100),
        inventory=AnnotatedDevices(key="hami.io/node-amd-register"),
        placing=Placing(exclusive_core=False),
        selectors=Selectors(
            ids=("amd.com/use-gpu-uuid",),
            not_ids=("amd.com/nouse-gpu-uuid",),
            models=("amd.com/use-gputype",),
            not_models=("amd.com/nouse-gputype",),
        ),
        liveness=WhileCapacity("count"),
        lock=SHARED_LOCK,
        v210=_spellings("amd", type_field="model"),
    )


def _vastai(section: Section) -> Iterator[Family]:
    die = Group(name="card", fact="AIC", when=("DeviceStrategy", "die"))
    yield Family(
        name="Vastai",
        resources=Resources(count=section["resourceCountName"]),
        core=CoreRule(default=NO_CORES),
        memory=MemoryRule(default=MemoryMib(0)),
        inventory=AnnotatedDevices(key="hami.io/node-va-register", groups=(die,), core_units=100),
        placing=Placing(accounts=frozenset(), mutex_group="card", together="card"),
        selectors=Selectors(ids=("vastaitech.com/use-gpuuuid",), not_ids=("vastaitech.com/nouse-gpuuuid",)),
        liveness=Handshake("hami.io/node-handshake-va"),
        lock=SHARED_LOCK,
        score_weight=1 / 30,
        v210=_spellings("Vastai"),
    )


def _biren(section: Section) -> Iterator[Family]:
    yield Family(
        name="Biren",
        resources=Resources(count=section["resourceCountName"]),
        core=CoreRule(default=NO_CORES),
        memory=MemoryRule(default=MemoryMib(0)),
        inventory=AnnotatedDevices(key="hami.io/node-biren-register", core_units=100),
        placing=Placing(accounts=frozenset()),
        selectors=Selectors(ids=("birentech.com/use-gpuuuid",), not_ids=("birentech.com/nouse-gpuuuid",)),
        liveness=Handshake("hami.io/node-handshake-biren"),
        lock=SHARED_LOCK,
        v210=_spellings("Biren"),
    )


def _iluvatar(model: Section) -> Family:
    name = model["commonWord"]
    return Family(
        name=name,
        resources=Resources(
            count=model["resourceCountName"], memory=model.get("resourceMemoryName"), core=model.get("resourceCoreName")
        ),
        memory=MemoryRule(unit_mib=256),
        core=CoreRule(default=NO_CORES),
        inventory=AnnotatedDevices(key=f"hami.io/node-{name}-register", form="text"),
        selectors=Selectors(ids=(f"hami.io/use-{name}-uuid",), not_ids=(f"hami.io/no-use-{name}-uuid",)),
        liveness=Handshake(f"hami.io/node-handshake-{name}"),
        lock=SHARED_LOCK,
        v210=_spellings(name),
    )


def _ascend(model: Section) -> Family:
    name = model["commonWord"]
    networked = name.startswith("Ascend910") and not model.get("superPod")
    groups = (Group(name="network", fact="NetworkID"), Group(name="module", index_block=2))
    return Family(
        name=name,
        resources=Resources(
            count=model["resourceName"], memory=model.get("resourceMemoryName"), core=model.get("resourceCoreName")
        ),
        core=CoreRule(default=NO_CORES),
        inventory=AnnotatedDevices(key=f"hami.io/node-register-{name}", also=("hami-vnpu-core",), groups=groups),
        placing=Placing(
            whole_groups="module" if model.get("superPod") else None, together="network" if networked else None
        ),
        selectors=Selectors(ids=(f"hami.io/use-{name}-uuid",), not_ids=(f"hami.io/no-use-{name}-uuid",)),
        admission=AdmissionRule(write_memory="always", runtime_class=model.get("runtimeClassName") or None),
        liveness=Handshake(f"hami.io/node-handshake-{name}"),
        lock=SHARED_LOCK,
        score_weight=1 / 3 if networked else 0.0,
        v210=_spellings(name, reason_words={Reason.MODE: "ModeNotFit"}),
    )
