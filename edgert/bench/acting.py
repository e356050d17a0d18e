"""What is measured of a model: the whole policy where its contract is known, else its network alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgert.device import Device
from edgert.errors import ContractError
from edgert.policy import LoadedPolicy, OnnxModel, OnnxNetwork, OnnxPolicy, load_policy
from edgert.policy.engine import Placement
from edgert.policy.load import locate
from edgert.policy.model import PolicyFile, read_policy

DEFAULT_HZ = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model that is measured.

    Attributes:
        file: the model; its digest covers further networks.
        loaded: with its contract, None where that is not known.
        why: why not, "" where it is.
    """

    file: PolicyFile
    loaded: LoadedPolicy | None
    why: str = ""

    @property
    def hz(self) -> float:
        """The control rate, Hz; a usual one where nobody states it."""
        return DEFAULT_HZ if self.loaded is None else self.loaded.contract.control_hz

    def open(self, device: Device, placement: Placement) -> OnnxPolicy | OnnxNetwork:
        """Open it for as many rows as the placement says.

        Raises:
            EdgertError: it cannot be opened so.
        """
        if self.loaded is not None:
            return OnnxPolicy(self.loaded, device, placement.rows, placement=placement)
        model = OnnxModel(self.file, device, placement=placement)
        try:
            sizes = {name: model.width(name) for name in model.inputs}
            unknown = [str(model.inputs[name]) for name, size in sizes.items() if size is None]
            if unknown:
                raise ContractError(
                    f"policy {self.file.path} leaves the size of an input open, and its contract is not known",
                    found=", ".join(unknown),
                    hint=f"Name its contract with --contract. {self.why}",
                )
            whole = [name for name, tensor in model.inputs.items() if "int" in tensor.type]
            obs = model.arrays({name: size for name, size in sizes.items() if size is not None}, placement.rows, whole)
            out, _ = model.probe(obs, (), others=True)
            if not out:
                raise ContractError(f"policy {self.file.path} gives no numbers for each row")
            return OnnxNetwork(model, obs, out)
        except BaseException:
            model.engine.close()
            raise


def subject(model: str | Path, contract: Path | None, format: str | None) -> Subject:
    """Read a model, and its contract if that is known.

    Raises:
        EdgertError: the model, or the contract that was named, cannot be used.
    """
    try:
        loaded = load_policy(model, contract, format=format)
    except ContractError as error:
        if contract is not None:
            raise
        return Subject(
            file=read_policy(locate(model) if isinstance(model, str) else model), loaded=None, why=str(error)
        )
    return Subject(file=loaded.file, loaded=loaded)
