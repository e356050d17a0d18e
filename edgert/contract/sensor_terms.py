"""The observation terms that hand on what sensors of a body measure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgert.contract.state import Array
from edgert.contract.terms import Term, TermInputs, ordered

if TYPE_CHECKING:
    from edgert.contract.spec import ObservationTerm


def _sensor(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    parts = [inputs.state.sensors[name] for name in term.sensors]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def _imu_quat(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    parts = [ordered(inputs.state.sensors[name], term, xp) for name in term.sensors]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def _foot_contact(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    force = _sensor(inputs, term, xp)
    return xp.astype(force > term.threshold, force.dtype)


def _handed_on(sensor: str, sensor_dim: int, unit: str) -> Term:
    """A term that hands on the numbers of sensors, by default of the one of its own name."""
    return Term(
        function=_sensor,
        dim=lambda sizes, sensors: sensor_dim * len(sensors),
        sensors=(sensor,),
        sensor_dim=sensor_dim,
        parameters=("sensors",),
        unit=unit,
    )


IMU_ANG_VEL = _handed_on("imu_ang_vel", 3, "rad/s")
IMU_LIN_ACC = _handed_on("imu_lin_acc", 3, "m/s²")
IMU_QUAT = replace(_handed_on("imu_quat", 4, "body to world"), function=_imu_quat, parameters=("sensors", "order"))
EE_POS = _handed_on("ee_pos", 3, "m")
FOOT_CONTACT = Term(
    function=_foot_contact,
    dim=lambda sizes, sensors: len(sensors),
    sensor_dim=1,
    parameters=("sensors", "threshold"),
    unit="1 where the force is above the threshold in N",
)
