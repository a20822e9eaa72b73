"""Where the certification writes in a region is where the limiter reads."""

import subprocess
from pathlib import Path

import pytest

layout = pytest.importorskip("hami_backend_mock.certify.layout")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
#include <stdio.h>
#include "hami/region.h"
#define AT(part, field) (HAMI_EXTENSION_AT + offsetof(struct hami_extension, devices) + offsetof(struct hami_device, field))
int main(void)
{
    printf("%zu %zu %zu %zu %zu %zu %zu %zu %zu", AT(devices, owner), AT(devices, rate), sizeof(struct hami_device),
           offsetof(struct hami_slot, status), offsetof(struct hami_slot, epoch), offsetof(struct hami_slot, utilization),
           offsetof(struct hami_region, recent_kernel), offsetof(struct hami_region, last_kernel_time), sizeof(struct hami_slot));
    return 0;
}
"""


def test_offsets_of_the_certification_are_the_limiter_s(tmp_path: Path) -> None:
    (tmp_path / "offsets.c").write_text(PROGRAM)
    program = str(tmp_path / "offsets")
    subprocess.run(["cc", f"-I{ROOT / 'include'}", "-o", program, str(tmp_path / "offsets.c")], check=True)
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(number) for number in told.split()] == [
        layout.OWNER_WORD,
        layout.RATE,
        layout.DEVICE_BYTES,
        layout.Slot.STATUS,
        layout.Slot.EPOCH,
        layout.Slot.UTILIZATION,
        layout.RECENT,
        layout.LAST_KERNEL,
        layout.SLOT_BYTES,
    ]
