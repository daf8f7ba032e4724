"""One run of probes on one device: locked, watched, kept part by part, written as a calibration record."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from infopt import __version__
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import METHOD, Calibration, Measurement, State
from infopt.hardware.calibration_store import check_target, default_path, device_lock, newest, save
from infopt.probes.findings import Findings, Part, now
from infopt.probes.setting import Setting
from infopt.probes.state import HELD_BACK, Watch, busy, identify, software


@dataclass(frozen=True, slots=True)
class Job:
    """One probe of a run: its name, and what begins it.

    follows    it is one rank of several on this machine that run it together, and another one holds the device's lock
    elsewhere  what it asks is a server's: it takes no time on the device, which may be that server's and in use
    """

    name: str
    begin: Callable[[Setting], Part]
    follows: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind.

    record       what this run measured, None where nothing was
    path         of the file it was written to, with what the file held before
    notes        what the user should know, of every part
    errors       probes that could not measure, and why; a run of one probe raises instead
    interrupted  whether it was stopped: finished parts are kept
    """

    record: Calibration | None
    path: Path
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    interrupted: bool

    @property
    def contended(self) -> bool:
        """Whether a figure of this run is not to be trusted, because others used the machine."""
        return self.record is not None and any(figure.contended for figure in self.record.figures)


class Run:
    """Parts as they come, and why no more came."""

    def __init__(self) -> None:
        self.parts: list[Findings] = []
        self.errors: list[str] = []
        self.interrupted = False

    def take(self, setting: Setting, jobs: Sequence[Job]) -> None:
        """Every part of every job; Ctrl-C ends it, an error ends its job (and is raised where there is no other)."""
        for job in jobs:
            try:
                for part in job.begin(setting if job.elsewhere else setting.begun()):
                    self.parts.append(part)
            except KeyboardInterrupt:
                self.interrupted = True
                return
            except Exception as error:
                refused = self._words(setting, job.name, error)
                if len(jobs) == 1 and not self.parts:
                    raise refused from error
                self.errors.append(f"{job.name}: {refused}")
            finally:
                setting.runtime.release()

    @staticmethod
    def _words(setting: Setting, name: str, error: Exception) -> InfoptError:
        """An error in one line; torch raises a RuntimeError for whatever a device refuses."""
        if isinstance(error, InfoptError):
            return error
        if setting.runtime.out_of_memory(error):
            return InfoptError(
                f"probe {name}: out of memory on {setting.runtime.name}; free some, or take a smaller size"
            )
        if isinstance(error, RuntimeError | OSError):
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return InfoptError(f"probe {name} failed on {setting.runtime.name}: {first}")
        raise error


def run(setting: Setting, jobs: Sequence[Job], out: Path | None = None, save_parts: bool = True) -> Outcome:
    """Run `jobs` one after the other on one device, and write what they found.

    Errors: InfoptError where the device is busy (a GPU; unless forced) or being probed already, where `out` cannot take
    the result, and where the only job fails; nothing is written then.
    """
    device = identify(setting.runtime)
    path = out if out is not None else default_path(device)
    if save_parts:
        check_target(path, device)
    elsewhere = all(job.elsewhere for job in jobs)
    reason = None if elsewhere else busy(setting.runtime)
    if reason and setting.runtime.kind == "cuda" and not setting.force:
        raise InfoptError(f"{setting.runtime.name} is busy: {reason}; wait, or measure it all the same with --force")
    taken = Run()
    unlocked = elsewhere or all(job.follows for job in jobs)
    with nullcontext() if unlocked else device_lock(device), Watch(setting.runtime) as watch:
        taken.take(setting, jobs)
    notes = tuple(dict.fromkeys(note for part in taken.parts for note in part.notes))
    state = watch.state()
    said = dict.fromkeys((*([reason] if reason else []), *state.notes, *notes))
    state = state.model_copy(update={"notes": list(said)})
    record = _record(setting, state, taken) if any(part.whole for part in taken.parts) else None
    if record is not None and save_parts:
        save(record, path)
    return Outcome(record, path, tuple(state.notes) if record else notes, tuple(taken.errors), taken.interrupted)


def _record(setting: Setting, state: State, taken: Run) -> Calibration:
    return Calibration(
        schema="infopt/calibration/1",
        method=METHOD,
        created=now(),
        infopt=__version__,
        complete=not taken.interrupted,
        device=identify(setting.runtime),
        state=state,
        software=software(setting.runtime),
        measurements=newest([], [_trusted(m, state) for part in taken.parts for m in part.measurements]),
        steps=[s for part in taken.parts for s in part.steps],
        acceptance=[a for part in taken.parts for a in part.acceptance],
    )


def _trusted(figure: Measurement, state: State) -> Measurement:
    """A figure of compute is not of the device where heat or a failing supply held its clock back; reads are."""
    held_back = figure.probe == "compute" and set(state.throttle) & set(HELD_BACK.values())
    return figure.model_copy(update={"contended": True}) if held_back else figure
