"""Reading untrusted files, and writing whole ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from factories import report_document
from fedcert import CallError, FedcertWarning, FileProblem, InvalidValue, read_reports
from fedcert._files import documents as reading
from fedcert.report import check_writable, read_documents, write_whole


def save(path: Path, **changes: object) -> Path:
    """Write a valid report to a file."""
    path.write_text(json.dumps(report_document(**changes)))
    return path


def test_one_file_many_files_a_folder_and_lines_give_the_same_reports(tmp_path: Path) -> None:
    names = [f"site-{index}" for index in range(5)]
    files = [save(tmp_path / f"{name}.json", client=name) for name in names]
    lines = tmp_path.parent / "all.ndjson"
    lines.write_text("\n\n".join(json.dumps(report_document(client=name)) for name in names) + "\n")
    assert [report.client for report in read_reports(files)] == names
    assert read_reports([tmp_path]) == read_reports(files) == read_reports([lines])
    assert len(read_reports([files[0]])) == 1


def test_in_a_folder_other_files_of_fedcert_are_passed_over_aloud(tmp_path: Path) -> None:
    save(tmp_path / "a.json")
    (tmp_path / "request.json").write_text('{"schema": "fedcert/request/1"}')
    with pytest.warns(FedcertWarning, match=r"passed over 1 file\(s\) that are not reports \('request.json'\)"):
        assert len(read_reports([tmp_path])) == 1


def test_in_a_folder_nothing_is_passed_over_in_silence(tmp_path: Path) -> None:
    save(tmp_path / "SITE-A.JSON", client="a")
    save(tmp_path / "b.json", client="b")
    save(tmp_path / "c.json.txt", client="c")
    (tmp_path / "old").mkdir()
    with pytest.warns(FedcertWarning, match=r"passed over 2 that do not end in .* \('c.json.txt, old'\)"):
        assert [report.client for report in read_reports(tmp_path)] == ["a", "b"]


def test_a_folder_without_reports_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        CallError, match=r"holds no \.json, \.ndjson, \.jsonl or \.parquet file; give a folder of reports"
    ):
        read_reports([tmp_path])
    (tmp_path / "empty.ndjson").write_text("")
    with pytest.raises(FileProblem, match="holds no report; give files that 'fedcert certify' wrote"):
        read_reports([tmp_path])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "expecting value at line 1, column 1"),
        (b'{"a": 1', "expecting ',' delimiter at line 1, column 8"),
        (b"\xff\xfe\x00", "it is not UTF-8 text"),
        (b"[" * 200_000, "it is nested too deeply"),
        (b'{"a": NaN}', "NaN is not a number that JSON has"),
        (b'{"a": -Infinity}', "-Infinity is not a number that JSON has"),
        (b'{"a": 1e999}', "1e999 is too large a number"),
        (b'{"a": "\\ud800"}', "it holds half of a character (a lone surrogate)"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice in one object"),
        (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    ],
)
def test_what_is_not_json_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(FileProblem) as caught:
        list(read_documents(path))
    assert str(caught.value).startswith(f"{path} is not valid JSON: {reason}")
    assert str(caught.value).endswith("it may be cut off, or edited by hand: correct it, or get it again")


def test_the_line_of_a_broken_document_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text(json.dumps(report_document()) + '\n{"schema": \n')
    with pytest.raises(FileProblem, match=r"a\.ndjson, line 2 is not valid JSON"):
        read_reports([path])
    path.write_text(json.dumps(report_document(client="")) + "\n")
    with pytest.raises(InvalidValue, match=r"^report '' in .*a\.ndjson, line 1: client must be"):
        read_reports([path])


def test_a_large_document_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_DOCUMENT", 2**20)
    monkeypatch.setattr(reading, "parse", lambda *_: pytest.fail("it was parsed"))
    for name in ("a.json", "a.ndjson"):
        path = tmp_path / name
        path.write_bytes(b" " * (2**20 + 1))
        with pytest.raises(FileProblem, match="is larger than 1 MiB, which no fedcert document is; not read"):
            list(read_documents(path))


def test_a_missing_file_and_a_wrong_ending_are_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"there is no file .*a\.json; check the name"):
        read_reports([tmp_path / "a.json"])
    (tmp_path / "a.txt").write_text("{}")
    with pytest.raises(
        CallError, match=r"does not end in \.json or \.ndjson or \.jsonl or \.parquet; give a file that does"
    ):
        read_reports([tmp_path / "a.txt"])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.json")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileProblem, match=r"cannot read .*a\.json: Permission denied"):
        read_reports([path])


def test_writing_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "first")
    write_whole(path, b"second")
    assert path.read_text() == "second"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    expected = FileProblem if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_whole(path, "new")
    if expected is FileProblem:
        assert str(caught.value) == f"cannot write '{path}': No space left on device; nothing was written"
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="it is a folder; name a file in it"):
        write_whole(tmp_path, "text")
    with pytest.raises(CallError, match="does not exist; make it first"):
        write_whole(tmp_path / "none" / "a.json", "text")


def test_links_are_followed_and_stay_links(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_whole(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_pipes_devices_circles_and_long_names_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "circle.json").symlink_to("circle.json")
    with pytest.raises(CallError, match=r"pipe\.json is a pipe; give a file"):
        read_reports([tmp_path / "pipe.json"])
    with pytest.raises(CallError, match="it is a pipe, not a file"):
        write_whole(tmp_path / "pipe.json", "text")
    with pytest.raises(CallError, match="it is a device or socket, not a file"):
        write_whole(Path(os.devnull), "text")
    for path in (tmp_path / "circle.json", tmp_path / ("a" * 300 + ".json")):
        with pytest.raises(CallError, match="cannot look at .*(Too many levels of symbolic links|File name too long)"):
            read_reports([path])
        with pytest.raises(CallError, match="cannot look at"):
            write_whole(path, "text")


def test_a_long_name_that_fits_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("病" * 80 + ".json")
    write_whole(path, "text")
    assert path.read_text() == "text"


def test_outputs_may_not_end_otherwise_or_overwrite_inputs(tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    data.write_text("{}")
    with pytest.raises(CallError, match=r"the name must end in \.json"):
        check_writable(tmp_path / "a.txt", (".json",))
    for inputs in ([data], [tmp_path]):
        with pytest.raises(CallError, match="it is one of the files to read; name another"):
            check_writable(tmp_path / "." / "data.json", (".json",), inputs)
    check_writable(tmp_path / "new.json", (".json",), [tmp_path])


def test_who_may_read_a_file_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o600)
    write_whole(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_reports_are_read_by_name_too(tmp_path: Path) -> None:
    path = save(tmp_path / "a.json")
    assert read_reports(str(path)) == read_reports(path) == read_reports([str(path)])


def test_what_is_being_written_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it takes the place of a secret file; who may read the whole file is as usual, or as it was."""
    seen, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (seen.append(os.fstat(number).st_mode & 0o777), sync(number)))
    secret = tmp_path / "keys.json"
    secret.touch(0o600)
    write_whole(secret, "secret")
    mask = os.umask(0o022)
    try:
        write_whole(tmp_path / "report.json", "{}")
    finally:
        os.umask(mask)
    assert {mode for mode in seen if mode != 0o755 and mode != 0o700} == {0o600}
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o644
