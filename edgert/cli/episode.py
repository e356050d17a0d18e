"""`edgert episode`: what `--record` wrote: list it, look at an episode, replay it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert.cli.completion import complete_models
from edgert.cli.live import LiveLine
from edgert.cli.main import EXIT_DIFFERENCE, HELP_NAMES, say, write
from edgert.cli.running import FilePath, check_mujoco, json_option, refuse_beside
from edgert.errors import IntegrityError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from edgert.rollout import Episode, Recording

recording_argument = click.argument("recording", type=FilePath(), metavar="DIR")


@click.group(context_settings=HELP_NAMES)
def episode() -> None:
    """List, show and replay recorded episodes."""


@episode.command("list", context_settings=HELP_NAMES)
@recording_argument
@json_option
def list_(recording: str, as_json: bool) -> int:
    """List the episodes of DIR, a folder that --record wrote."""
    from edgert.cli.episode_tables import list_table

    opened = _opened(recording)
    write({"recording": recording, "episodes": [_row(each) for each in opened]}, as_json, list_table)
    return 0


@episode.command(context_settings=HELP_NAMES)
@recording_argument
@click.argument("number", type=int, default=0)
@json_option
def show(recording: str, number: int, as_json: bool) -> int:
    """Show episode NUMBER of DIR (default: 0): what was run, how it went, and its course in sparklines."""
    from edgert.cli.episode_tables import course, show_table

    chosen = _one(_opened(recording), number)
    columns = {name: list(chosen[name].shape) for name in chosen.columns}
    report = _row(chosen) | {"columns": columns, "header": dict(chosen.header), "course": course(chosen)}
    write(report, as_json, show_table)
    return 0


@episode.command(context_settings=HELP_NAMES)
@recording_argument
@click.argument("numbers", type=int, nargs=-1)
@click.option("--policy", "model", shell_complete=complete_models, help="Another policy than the recorded one.")
@click.option("--device", default="cpu", show_default=True, help="Chip that runs the network.")
@click.option("--provider", metavar="NAME", help="Inference provider, such as openvino.  [default: the chip's first]")
@click.option(
    "--video", type=FilePath(), metavar="FILE", help="Film the recorded states of one episode instead, .mp4 or .gif."
)
@json_option
def replay(
    recording: str,
    numbers: tuple[int, ...],
    model: str | None,
    device: str,
    provider: str | None,
    video: str | None,
    as_json: bool,
) -> int:
    """Feed the observations of episodes NUMBERS of DIR (default: all) to the policy, and compare its actions.

    On the provider, with the onnxruntime and on the chip that recorded them they are the same bit for bit. Exit code 5
    means that some are not. The files that DIR names are opened: its policy, and with --video its scene.
    """
    from edgert.cli.episode_tables import replay_table

    opened = _opened(recording)
    chosen = [_one(opened, number) for number in numbers] or list(opened)
    if video is not None:
        refuse_beside("--video", ("model", "device", "provider"), "it shows what was recorded")
        return _film(chosen, recording, Path(video), as_json=as_json)
    from edgert.rollout.replay import replay as replay_episodes

    for path in sorted({str(model or each.header.get("policy")) for each in chosen}):
        say(f"replaying with policy {path}")
    with LiveLine() as line:
        results = replay_episodes(
            chosen,
            model,
            device=device,
            provider=provider,
            progress=lambda done, total: line.update(lambda: f"replayed {done} of {total} steps"),
        )
    here = results[0].ran_on
    for there in sorted({each.recorded_on for each in results} - {here}):
        say(f"recorded on {there}, replayed on {here}: actions may differ in their last bits")
    report = {
        "recording": recording,
        "provider": results[0].provider,
        "same": all(each.same for each in results),
        "episodes": [
            {
                "episode": each.episode.index,
                "id": each.episode.id,
                "steps": each.steps,
                "same": each.same,
                "different_steps": each.different,
                "first_difference": each.first,
                "max_difference": each.max_difference,
            }
            for each in results
        ],
    }
    write(report, as_json, replay_table)
    return 0 if report["same"] else EXIT_DIFFERENCE


def _film(chosen: list[Episode], recording: str, video: Path, *, as_json: bool) -> int:
    from edgert.view import check_video

    if len(chosen) != 1:
        raise UnsupportedError(
            "a video shows one episode", found=f"{len(chosen)}", hint=f"Name one: edgert episode replay {recording} 0 …"
        )
    check_video(video)
    from edgert.cli.film import film
    from edgert.rollout.scenes import recorded_goals, recorded_model

    (episode,) = chosen
    model = recorded_model(episode)
    hz = float(episode.header["control_hz"])
    path = film(video, model, episode.qpos, hz=hz, markers=recorded_goals(episode))
    report = {"recording": recording, "episode": episode.index, "video": path}
    write(report, as_json, lambda report: str(report["video"]))
    return 0


def _opened(recording: str) -> Recording:
    check_mujoco()
    from edgert.rollout import read

    opened = read(recording)
    for line in opened.torn:
        say(f"warning: {line}")
    return opened


def _one(recording: Recording, number: int) -> Episode:
    if not len(recording):
        raise IntegrityError(f"recording {recording.path} holds no episode", hint="Record one")
    if not -len(recording) <= number < len(recording):
        raise UnknownNameError(
            f"recording {recording.path} has no episode {number}", expected=f"0 to {len(recording) - 1}"
        )
    return recording[number]


def _row(episode: Episode) -> dict[str, Any]:
    header, info = episode.header, episode.info
    return {
        "episode": episode.index,
        "id": episode.id,
        "where": header.get("sim", header.get("env")),
        "policy": header.get("policy"),
        "policy_sha256": header.get("policy_sha256"),
        "world": info.get("world"),
        "seed": info.get("seed"),
        "steps": episode.steps,
        "seconds": episode.seconds,
        "outcome": info.get("outcome"),
        "reason": info.get("reason", ""),
        "return": info.get("return"),
    }
