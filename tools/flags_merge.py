"""From flags by release to rows of the data file, one per run of releases without a change, and back."""

import csv
from collections.abc import Iterable
from pathlib import Path

from infopt.profiles.flag_data import COLUMNS, RELEASE_COLUMNS, Flag, FlagTable, Release, release_key

Snapshot = dict[str, Flag]  # flags of a release by name
Row = tuple[Flag, str, str]  # the flag, first and last release of the run


def in_order(versions: Iterable[str]) -> list[str]:
    """Releases from old to new."""
    return sorted(versions, key=lambda version: (release_key(version) or ((0,), 0, 0), version))


def snapshots_of(table: FlagTable) -> dict[str, Snapshot]:
    """The releases a table was made from."""
    return {release.version: table.flags(release.version) for release in table.releases}


def renamed(flag: Flag, name: str) -> Flag:
    """The same flag under another of its names."""
    others = sorted({flag.name, *flag.aliases} - {name})
    return Flag(name, tuple(others), *[getattr(flag, field) for field in _UNNAMED])


_UNNAMED = ("negations", "kind", "type", "default", "choices", "env", "status", "replaced_by")


def with_one_name(snapshots: dict[str, Snapshot]) -> dict[str, Snapshot]:
    """One name for a flag in all releases: the newest release's, followed through the long names both have."""
    found: dict[str, Snapshot] = {}
    newer: dict[str, str] = {}  # long name -> canonical name, in the releases seen
    for version in reversed(in_order(snapshots)):
        found[version] = {}
        here: dict[str, str] = {}
        for flag in snapshots[version].values():
            long = [name for name in (flag.name, *flag.aliases) if name.startswith("--")]
            known = [newer[name] for name in long if name in newer]
            name = next((name for name in known if name in long), flag.name)
            found[version][name] = renamed(flag, name)
            here |= dict.fromkeys(long, name)
        newer |= here
    return found


def rows_of(snapshots: dict[str, Snapshot]) -> list[Row]:
    """Rows of the data file, sorted by name and release."""
    order = in_order(snapshots)
    snapshots = with_one_name(snapshots)
    rows: list[Row] = []
    for name in sorted({name for snapshot in snapshots.values() for name in snapshot}):
        run: Row | None = None
        for version in order:
            flag = snapshots[version].get(name)
            if run and flag == run[0]:
                run = run[0], run[1], version
                continue
            rows += [run] if run else []
            run = (flag, version, version) if flag else None
        rows += [run] if run else []
    return rows


def _cells(flag: Flag, first: str, last: str) -> list[str]:
    lists = [" ".join(values) for values in (flag.aliases, flag.negations)]
    values = [flag.kind, flag.type, flag.default, " ".join(flag.choices), flag.env, flag.status, flag.replaced_by]
    return [flag.name, first, last, *lists, *values]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write `<engine>.csv`."""
    _write(path, COLUMNS, [_cells(*row) for row in rows])


def write_releases(path: Path, releases: list[Release]) -> None:
    """Write `releases.csv`: engines by name, releases from old to new."""
    ordered = sorted(releases, key=lambda release: (release.engine, release_key(release.version) or ((0,), 0, 0)))
    _write(
        path, RELEASE_COLUMNS, [[r.engine, r.version, " ".join(sorted(r.parser)), r.file, r.sha256] for r in ordered]
    )


def _write(path: Path, columns: list[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
