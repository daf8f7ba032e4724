"""A copy of the working tree that is imported as `infopt`: what a check changes there, the checkout never sees.

The root of the repository is the package, so the copy is a folder of that name and its parent goes on the path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from figure import ROOT


def copy_tree(to: Path) -> Path:
    """Every file git tracks or would track, under `to`/infopt. `../shared` has no copy: its tests are skipped there."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    tree = to / "infopt"
    for name in filter(None, names):
        if (ROOT / name).is_file():  # a tracked file may have been deleted since
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def enter(tree: Path) -> None:
    """From here on this process, and those it starts, import `infopt` from the copy and leave no bytecode in it.

    Bytecode is recognised by time and size of its source: two mutants within one second could be taken for each other.
    """
    os.chdir(tree)
    sys.path.insert(0, str(tree.parent))
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": str(tree.parent), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
