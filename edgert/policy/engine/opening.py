"""Which engine serves a device: the provider that was asked for, or the device's first one, or a refusal."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from edgert.device.device import Device
from edgert.device.onnxruntime import CPU_PROVIDER, import_onnxruntime, installed_runtimes
from edgert.errors import DeviceError, UnsupportedError
from edgert.policy.engine.plugins import chips_of, installed_plugins, matching, named_plugins
from edgert.policy.engine.protocol import Engine, Placement
from edgert.policy.engine.providers import IXRT, PROVIDERS, Provider, provider
from edgert.policy.model import PolicyFile


def open_engine(file: PolicyFile, device: Device, placement: Placement) -> Engine:
    """Open a model on a device, all of it, or refuse.

    Raises:
        DeviceError: the device has no such provider here, or the provider does not take all of the network.
        IntegrityError, UnsupportedError: the model cannot be opened by anybody.
    """
    chosen = provider_of(device, placement.provider)
    if placement.precision == "fp16" and not chosen.half:
        raise UnsupportedError(
            f"provider '{chosen.name}' computes as the model says", found="--precision fp16", expected="fp32"
        )
    if chosen.runtime == IXRT:
        from edgert.policy.engine.ixrt import IxrtEngine

        return IxrtEngine(file, device, placement)
    from edgert.policy.engine.runtime import RuntimeEngine

    return RuntimeEngine(file, device, chosen, placement)


def provider_of(device: Device, asked: str | None) -> Provider:
    """The provider that will run on a device.

    Raises:
        DeviceError: it is not installed, or is none of this device's.
    """
    first = provider(device.providers[0]).runtime if device.providers else ""
    if first == CPU_PROVIDER and (asked is None or provider(asked).runtime == CPU_PROVIDER):
        return PROVIDERS[CPU_PROVIDER]  # every onnxruntime has it, so nothing has to be looked for
    if asked is None:
        there, broken = _look(device)
        if there:
            return there[0]
        wanted = [provider(name) for name in device.providers]
        raise DeviceError(
            f"no inference provider for {device.name} ({device.chip}) is installed",
            found="; ".join([_installed(), *map(str, broken)]),
            expected=" or ".join(each.runtime for each in wanted) or "one; none is known for this chip",
            hint=wanted[0].install if wanted else "Run on the host instead: --device cpu",
        )
    chosen = provider(asked)
    there, broken = _look(device)
    for each in there:
        if each.runtime == chosen.runtime:
            return each
    known = asked in (each.name for each in PROVIDERS.values()) or asked in PROVIDERS
    listed = chosen.runtime in {provider(name).runtime for name in device.providers}
    here = chosen.runtime in installed_providers()
    naming = "Name the device that it is for with --device"
    raise DeviceError(
        f"{device.name} ({device.chip}) cannot run the network by provider '{asked}'",
        found="; ".join(
            [f"{', '.join(each.name for each in there) or 'no provider'} for this device", *map(str, broken)]
        )
        + f", from {_installed()}",
        expected="one of those" if here or not known else chosen.runtime,
        hint=naming if here or not known else chosen.install + ("" if listed else f". {naming}"),
    )


def providers_here(device: Device) -> tuple[Provider, ...]:
    """Every provider that is installed and serves a device, in the device's order; then those of plug-ins."""
    return _look(device)[0]


def _look(device: Device) -> tuple[tuple[Provider, ...], list[DeviceError]]:
    """The providers of a device, and why plug-ins cannot be used."""
    names = dict.fromkeys(provider(name).runtime for name in device.providers)
    plugins, broken = named_plugins()
    built_in = _without_plugins()
    found = {name for name in names if name in built_in and name not in plugins}
    for name, plugin in plugins.items():
        runtime = import_onnxruntime()
        try:
            if matching(chips_of(runtime, plugin), device) is not None:
                found.add(name)
        except DeviceError as error:
            broken.append(error)
    order = [*(name for name in names if name in found), *(name for name in plugins if name in found - names.keys())]
    return tuple(provider(name) for name in order), broken


def installed_providers() -> frozenset[str]:
    """What could be opened here, whatever the device."""
    return _without_plugins() | named_plugins()[0].keys()


def _without_plugins() -> frozenset[str]:
    names = set(import_onnxruntime().get_available_providers())
    return frozenset(names | {IXRT} if find_spec("ixrt") is not None else names)


def provider_version(chosen: Provider) -> str:
    """The versions that decide what a provider computes and how fast: of the runtime, and of the plug-in."""
    if chosen.runtime == IXRT:
        try:
            return f"ixrt {version('ixrt')}"
        except PackageNotFoundError:
            return "ixrt of unknown version"
    plugin = named_plugins()[0].get(chosen.runtime)
    parts = [*installed_runtimes(), *([f"{plugin.distribution} {plugin.version}"] if plugin is not None else [])]
    return ", ".join(parts) or "onnxruntime without metadata"


def _installed() -> str:
    parts = [*installed_runtimes(), *(f"{each.distribution} {each.version}" for each in installed_plugins())]
    return ", ".join(parts) or "an onnxruntime without metadata"
