"""Files are written whole, links stay links, and what is no file is written into."""

import os
import threading
from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.files import write_text


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "a.json", tmp_path / "b.json"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("one", "two"):
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert sorted(tmp_path.rglob("*")) == sorted([target.parent, target, link])


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "text")
    reader.join(10)
    assert read == ["text"]
    assert pipe.is_fifo()


def test_a_link_to_itself_is_told(tmp_path: Path) -> None:
    link = tmp_path / "loop"
    link.symlink_to(link)
    with pytest.raises(InfoptError, match="loop: cannot be written: it is a link to itself"):
        write_text(link, "text")
