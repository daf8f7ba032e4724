"""Read the command lines of engine releases into profiles/data/flag_tables: a maintainer's tool.

    python tools/flag_tables.py vllm 0.34.0
    python tools/flag_tables.py sglang 0.5.24
    python tools/flag_tables.py llama.cpp 0.3.37     # the release of llama-cpp-python that vendors it

Each release is downloaded by pip into a temporary folder, its sources are read with `ast` (llama.cpp: as text), and
the download is deleted: no code of an engine is imported or executed. llama.cpp needs a row in llama_cpp_builds.csv
that says which build the release vendors. Adding a release again replaces it; the result does not depend on the order.
"""

import argparse
import csv
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType

import flags_llama_cpp
import flags_sglang
import flags_vllm
from flags_merge import Snapshot, rows_of, snapshots_of, write_releases, write_rows

from infopt.errors import InfoptError
from infopt.profiles.flag_data import FOLDER, Release, engines_with_tables, flag_table, read_releases

READERS: dict[str, ModuleType] = {"vllm": flags_vllm, "sglang": flags_sglang, "llama.cpp": flags_llama_cpp}
SOURCE_ONLY = {"llama-cpp-python"}  # published as source; its build back end reads pyproject.toml, nothing is compiled
BUILDS = Path(__file__).with_name("llama_cpp_builds.csv")


def download(package: str, version: str, folder: Path) -> Path:
    """The wheel of a release, or its source distribution where there is no wheel."""
    form = ["--no-binary", package] if package in SOURCE_ONLY else ["--only-binary", ":all:"]
    options = ["--quiet", "--no-deps", "--no-cache-dir", *form, "--dest", str(folder)]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *options, f"{package}=={version}"], check=False)
    if done.returncode:
        raise InfoptError(
            f"pip cannot download {package} {version}; `pip index versions {package}` lists what there is"
        )
    return next(folder.iterdir())


def sources(archive: Path, keep: tuple[str, ...]) -> dict[str, str]:
    """Wanted files of a wheel (`vllm/engine/...`) or a source distribution (below `vendor/llama.cpp/`), by path."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wanted = [name for name in wheel.namelist() if name.endswith(".py") and name.startswith(keep)]
            return {name: wheel.read(name).decode() for name in wanted}
    found: dict[str, str] = {}
    with tarfile.open(archive) as sdist:
        for member in sdist:
            name = member.name.partition("vendor/llama.cpp/")[2]
            if name in keep and (stream := sdist.extractfile(member)):
                found[name] = stream.read().decode()
    return found


def engine_version(engine: str, version: str) -> str:
    """The engine's own name of a release: for llama.cpp the build that the package vendors."""
    if engine != "llama.cpp":
        return version
    with BUILDS.open(encoding="utf-8", newline="") as lines:
        builds = {row["release"]: row["build"] for row in csv.DictReader(lines)}
    if version not in builds:
        raise InfoptError(f"{BUILDS.name} has no row for {version}: add the build number of the commit it vendors")
    return builds[version]


def read_release(engine: str, version: str) -> tuple[Release, Snapshot]:
    """Download one release and read its flags."""
    reader, name = READERS[engine], engine_version(engine, version)
    with tempfile.TemporaryDirectory() as folder:
        archive = download(reader.PACKAGE, version, Path(folder))
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        flags, parser = reader.read(sources(archive, reader.KEEP))
    print(f"{engine} {version}: {len(flags)} flags from {archive.name}")
    return Release(engine, name, frozenset(parser), archive.name, digest), flags


def add_releases(engine: str, versions: list[str]) -> None:
    """Read releases and write the data files anew."""
    known = engine in engines_with_tables()
    snapshots = snapshots_of(flag_table(engine)) if known else {}
    releases = {release.version: release for release in read_releases(engine)}
    for version in versions:
        release, flags = read_release(engine, version)
        snapshots[release.version] = flags
        releases[release.version] = release
    others = [release for name in engines_with_tables() if name != engine for release in read_releases(name)]
    write_rows(FOLDER / f"{engine}.csv", rows_of(snapshots))
    write_releases(FOLDER / "releases.csv", [*others, *releases.values()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=sorted(READERS))
    parser.add_argument("versions", nargs="+", help="releases of the package on the registry")
    options = parser.parse_args()
    try:
        add_releases(options.engine, options.versions)
    except InfoptError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
