"""Reading the table [motion] of a contract: a reference motion, from a file or from the network itself."""

from __future__ import annotations

from typing import cast, get_args

from edgert.contract.spec import MOTION_OUTPUTS, MotionSpec, QuatOrder
from edgert.tables import Table

MAX_MOTION_HZ = 10_000.0


def read_motion(table: Table, joints: tuple[str, ...]) -> MotionSpec:
    """The motion of a contract over `joints`."""
    file, time_step = table.text("file", ""), table.text("time_step", "")
    outputs = _outputs(table)
    if bool(file) == bool(outputs):
        table.fail(
            "outputs" if file else "file",
            found=f"a file and outputs {', '.join(outputs)}" if file else "neither a file nor outputs",
            expected="file, or [motion.outputs] of a network that holds the motion",
        )
    if outputs and not time_step:
        table.fail("time_step", found="none", expected="the ONNX input that takes the frame of the motion")
    bodies, anchor = table.names("bodies", ()), table.text("anchor", "")
    if len(bodies) > 1 and anchor and anchor not in bodies:  # from the pose of one, the base, follow all others
        table.fail("anchor", found=anchor, expected="one of motion.bodies: " + ", ".join(bodies))
    spec = MotionSpec(
        file=file,
        hz=table.number("hz", above=0.0, hi=MAX_MOTION_HZ) if table.has("hz") else None,
        time_step=time_step,
        outputs=outputs,
        joints=table.names("joints", joints),
        bodies=bodies,
        anchor=anchor,
        # Retargeted motions come as CSV with the root's quaternion xyzw; trainers' arrays are wxyz.
        quat_order=cast(
            QuatOrder,
            table.text("quat_order", "xyzw" if file.lower().endswith(".csv") else "wxyz", choices=get_args(QuatOrder)),
        ),
        loop=table.flag("loop", False),
    )
    table.close()
    return spec


def _outputs(table: Table) -> dict[str, str]:
    if not table.has("outputs"):
        return {}
    entry = table.table("outputs")
    outputs = {name: entry.text(name) for name in MOTION_OUTPUTS if entry.has(name)}
    entry.close()
    return outputs
