"""Comparisons of remote files equal those of local ones, over SSH and S3, also with disturbed connections."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_line import Outcome, run
from made_dumps import Case, numbers, read_result
from opdiff.core.remote import stores
from opdiff.core.remote.retries import RetryPolicy
from opdiff.core.remote.store import Settings
from opdiff.read.directory import scan
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare.saved import load_saved
from remote_servers import proxy_to, s3_server, ssh_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from command_line import Command
    from remote_servers import Proxy, S3Server, SshServer

SECRET = "t0p-s3cret"  # noqa: S105  the password of no server
RULES = "rules/network.json"


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    pytest.importorskip("paramiko")
    with ssh_server(tmp_path_factory.mktemp("ssh")) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(server.home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    pytest.importorskip("s3fs")
    with s3_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "dump"
    write_sample(str(folder))
    return folder


@pytest.fixture(scope="module")
def on_s3(s3: S3Server, sample: Path) -> str:
    return s3.upload(sample, "sample")


@pytest.fixture(scope="module")
def on_ssh(ssh: SshServer, sample: Path) -> str:
    return ssh.url(sample)


@pytest.fixture
def proxy(ssh: SshServer) -> Iterator[Proxy]:
    with proxy_to(ssh.port) as found:
        ssh.trust(found.port)
        yield found


@pytest.fixture
def proxied(ssh: SshServer, sample: Path, proxy: Proxy) -> str:
    """The URL of the sample through the proxy."""
    return ssh.url(sample, proxy.port)


@pytest.fixture
def few_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "Settings", partial(Settings, retries=RetryPolicy(3, 0.01)))


class Comparisons:
    """Comparisons of copies of one sample, and their results without the paths of its root."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._root, self._capsys, self._count = root, capsys, 0

    def run(self, root: object, *options: object) -> tuple[Outcome, Path]:
        self._count += 1
        out = self._root / f"out{self._count}"
        sides = (f"{root}/npu", f"{root}/golden", "-fr", f"{root}/{RULES}")
        return run(self._capsys, "compare", *sides, "-o", out, *options), out

    def result(self, root: object, *options: object) -> tuple[bytes, str]:
        """Return the table and the saved form."""
        outcome, out = self.run(root, "--no-html", *options)
        assert outcome.code == 0, outcome.err
        (table,), (saved,) = out.glob("result_*.csv"), out.glob("result_*.json")
        values = load_saved([str(saved)])
        known = (values.rows, values.judgement, values.profiles, values.error_facts, values.notes)
        return table.read_bytes(), repr(known).replace(str(root), "ROOT")


@pytest.fixture
def comparisons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Comparisons:
    return Comparisons(tmp_path, capsys)


_expected: dict[Path, tuple[bytes, str]] = {}


@pytest.fixture
def expected(comparisons: Comparisons, sample: Path) -> tuple[bytes, str]:
    """The result with local files."""
    if sample not in _expected:
        _expected[sample] = comparisons.result(sample)
    return _expected[sample]


@pytest.mark.parametrize("place", ["on_ssh", "on_s3"])
def test_a_remote_comparison_equals_a_local_one(
    comparisons: Comparisons, expected: object, place: str, request: pytest.FixtureRequest
) -> None:
    assert comparisons.result(request.getfixturevalue(place)) == expected


def test_graph_mode_over_ssh_equals_local_files(ssh: SshServer, tmp_path: Path, opdiff: Command) -> None:
    made = write_graph_sample(str(tmp_path / "dump"))
    tables = []
    for number, sides in enumerate(((made.target, made.golden), map(ssh.url, map(Path, (made.target, made.golden))))):
        out = tmp_path / f"out{number}"
        assert opdiff("compare", *sides, "-m", "torchair", "-o", out).code == 0
        texts = [path.read_text() for path in sorted(out.rglob("*.csv"))]
        tables.append([text.replace(ssh.url(tmp_path), str(tmp_path)) for text in texts])
    assert tables[0] == tables[1]
    assert tables[0]


def test_workers_of_a_cluster_read_remote_files(comparisons: Comparisons, on_s3: str, expected: object) -> None:
    pytest.importorskip("distributed")
    assert comparisons.result(on_s3, "--cluster", "local:2") == expected


def test_workers_of_a_cluster_get_no_password(
    comparisons: Comparisons, ssh: SshServer, sample: Path, opdiff: Command
) -> None:
    user = os.environ.get("USER") or "root"
    url = ssh.url(sample, user=f"{user}:{SECRET}@")
    outcomes = [comparisons.run(url, "--cluster", "local:1")[0]]
    outcomes += [opdiff(command, f"{url}/npu", "--cluster", "local:1") for command in ("inspect", "convert")]
    for outcome in outcomes:
        assert outcome.code == 2
        assert "workers of a cluster use credentials of their own" in outcome.err
        assert SECRET not in outcome.err


def test_workers_of_a_cluster_inspect_and_convert_remote_files(
    on_s3: str, tmp_path: Path, sample: Path, opdiff: Command
) -> None:
    here = opdiff("inspect", sample / "npu", "--stats", "--json")
    there = opdiff("inspect", f"{on_s3}/npu", "--stats", "--json", "--cluster", "local:2")
    assert there.code == 0, there
    assert there.out.replace(f"{on_s3}/npu", str(sample / "npu")) == here.out
    assert opdiff("convert", sample / "npu", "-out", tmp_path / "here").code == 0
    outcome = opdiff("convert", f"{on_s3}/npu", "-out", tmp_path / "there", "--cluster", "local:2")
    assert outcome.code == 0, outcome
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("here", "there")]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    "words",
    [("npu",), ("npu", "--stats"), ("npu", "--no-data"), (RULES,), ("npu/*",), ("golden/*",)],
    ids=["samples", "values", "headers", "rules", "dump", "array"],
)
def test_inspection_over_ssh_equals_that_of_local_files(
    words: tuple[str, ...], on_ssh: str, sample: Path, opdiff: Command
) -> None:
    path = min(sample.glob(words[0])).relative_to(sample)
    local, remote = (opdiff("inspect", f"{root}/{path}", "--json", *words[1:]).out for root in (sample, on_ssh))
    assert remote.replace(on_ssh, str(sample)) == local


def test_conversion_over_ssh_equals_that_of_local_files(
    on_ssh: str, sample: Path, tmp_path: Path, opdiff: Command
) -> None:
    for name, source in (("local", sample / "npu"), ("remote", f"{on_ssh}/npu")):
        assert opdiff("convert", source, "-out", tmp_path / name, "-f", "NCHW").code == 0
    local, remote = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.npy")} for name in ("local", "remote")
    )
    assert local == remote
    assert local


# Interrupted runs


def test_an_interrupted_run_measures_changed_remote_files_again(
    ssh: SshServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, capsys)
    case.npu("op", numbers(10))
    golden = case.npu_golden("op", numbers(10))
    url = ssh.url(tmp_path)
    words = ("compare", f"{url}/target", f"{url}/golden", "-o", tmp_path / "out", "--no-html")
    monkeypatch.setattr("opdiff.workflows.compare.finished_chunks.remove_chunks", lambda _folder: None)
    assert run(capsys, *words, "--resume").code == 0
    golden.write_bytes(golden.read_bytes()[:-4] + b"abcd")
    os.utime(golden, (0, 0))
    assert run(capsys, *words, "--resume").code == 0
    assert run(capsys, *words).code == 0
    unchanged, resumed, plain = [read_result(path) for path in sorted((tmp_path / "out").glob("*.csv"))]
    assert resumed.of("op") == plain.of("op") != unchanged.of("op")


# Disturbed connections


@pytest.mark.usefixtures("few_retries")
def test_cut_connections_cost_only_time(comparisons: Comparisons, proxied: str, proxy: Proxy, expected: object) -> None:
    proxy.cuts = [9_000, 30_000, 100_000]
    assert comparisons.result(proxied) == expected
    assert proxy.connections > 3


def test_a_slow_connection_costs_only_time(
    comparisons: Comparisons, proxied: str, proxy: Proxy, expected: object
) -> None:
    proxy.delay_s = 0.002
    assert comparisons.result(proxied) == expected


@pytest.mark.usefixtures("few_retries")
def test_cut_connections_to_s3_cost_only_time(
    comparisons: Comparisons, s3: S3Server, on_s3: str, expected: object
) -> None:
    fsspec = pytest.importorskip("fsspec")
    with proxy_to(s3.port) as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        patch.setattr(stores, "_stores", {})
        fsspec.filesystem("s3").clear_instance_cache()
        proxy.cuts = [700, 1_500, 40_000, 3_000]
        assert comparisons.result(on_s3) == expected
        assert proxy.connections > 4
        fsspec.filesystem("s3").clear_instance_cache()


@pytest.mark.usefixtures("few_retries")
def test_a_file_that_cannot_be_read_costs_its_rows(
    ssh: SshServer, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(tmp_path, capsys)
    for name, count in (("small", 10), ("large", 500_000)):
        case.npu(name, numbers(count))
        case.npu_golden(name, numbers(count))
    proxy.limit = 300_000
    url = ssh.url(tmp_path, proxy.port)
    outcome = run(capsys, "compare", f"{url}/target", f"{url}/golden", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    (table,) = (tmp_path / "out").glob("*.csv")
    result = read_result(table)
    assert "cannot be read: Server connection dropped" in result.of("large")["CompareFailReason"]
    assert result.of("small")["CompareFailReason"] == ""


def test_a_connection_that_is_cut_while_requests_are_sent_fails_quietly(
    ssh: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of paramiko sends them; its traceback would be printed."""
    paramiko = pytest.importorskip("paramiko")
    from opdiff.core.remote.sftp import SftpFiles

    (tmp_path / "large").write_bytes(bytes(1 << 20))
    send = paramiko.SFTPClient._async_request
    failures: list[object] = []
    monkeypatch.setattr("threading.excepthook", failures.append)
    files = SftpFiles(ssh.url(Path()).rstrip("/."))
    assert files.cat_file(str(tmp_path / "large"), start=5, end=1 << 20) == bytes((1 << 20) - 5)

    def cut_and_send(*arguments: object) -> object:
        if isinstance(arguments[1], paramiko.SFTPFile):
            files.close()
        return send(*arguments)

    monkeypatch.setattr(paramiko.SFTPClient, "_async_request", cut_and_send)
    with pytest.raises((OSError, EOFError, paramiko.SSHException)):
        files.cat_file(str(tmp_path / "large"), start=0, end=1 << 20)
    assert failures == []


@pytest.mark.usefixtures("few_retries")
def test_a_server_that_is_gone_is_named(proxied: str, proxy: Proxy, opdiff: Command) -> None:
    proxy.is_refusing = True
    outcome = opdiff("compare", f"{proxied}/npu", f"{proxied}/golden")
    assert outcome.code == 3
    assert f"opdiff: {proxied}/npu: cannot be reached:" in outcome.err


# Trust


def test_a_host_that_is_not_known_is_refused(ssh: SshServer, sample: Path, opdiff: Command) -> None:
    with proxy_to(ssh.port) as proxy:
        outcome = opdiff("inspect", ssh.url(sample, proxy.port))
    assert outcome.code == 3
    assert "is not in ~/.ssh/known_hosts" in outcome.err


def test_passwords_are_shown_nowhere(comparisons: Comparisons, ssh: SshServer, sample: Path) -> None:
    user = os.environ.get("USER") or "root"
    outcome, out = comparisons.run(ssh.url(sample, user=f"{user}:{SECRET}@"), "--xlsx")
    assert outcome.code == 0, outcome.err
    assert SECRET not in outcome.out + outcome.err
    written = [path for path in out.rglob("*") if path.is_file()]
    assert {path.suffix for path in written} == {".csv", ".html", ".json", ".xlsx"}
    assert not any(SECRET.encode() in path.read_bytes() for path in written)


@pytest.mark.parametrize("option", [(), ("--no-such-option",)], ids=["wrong password", "wrong usage"])
def test_passwords_are_not_in_errors(option: tuple[str, ...], ssh: SshServer, sample: Path, opdiff: Command) -> None:
    outcome = opdiff("inspect", ssh.url(sample, user=f"nobody-here:{SECRET}@"), f"sftp://x:{SECRET}@h/", *option)
    assert outcome.code == 2
    assert SECRET not in outcome.out + outcome.err
    outcome = opdiff("inspect", ssh.url(sample, user=f"nobody-here:{SECRET}@"))
    assert outcome.code == 3
    assert "authentication" in outcome.err
    assert SECRET not in outcome.out + outcome.err


def test_links_and_hostile_names_are_skipped_as_they_are_locally(ssh: SshServer, sample: Path, tmp_path: Path) -> None:
    dump = next((sample / "npu").iterdir())
    (tmp_path / dump.name).write_bytes(dump.read_bytes())
    (tmp_path / "Conv.inside.1.1.1700000000000000").symlink_to(tmp_path / dump.name)
    (tmp_path / "Conv.outside.1.1.1700000000000000").symlink_to("/etc/passwd")
    (tmp_path / "Conv.broken.1.1.1700000000000000").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    local, remote = scan(str(tmp_path)), scan(ssh.url(tmp_path))
    assert [entry.name for entry in remote.entries()] == [entry.name for entry in local.entries()]
    found = {os.path.basename(problem.path): problem.reason for problem in remote.problems}
    assert found == {os.path.basename(problem.path): problem.reason for problem in local.problems}
    (tmp_path / "a\x1b[2J").write_bytes(b"")
    stores.start_run()
    (problem,) = [item for item in scan(ssh.url(tmp_path)).problems if item.path.endswith("/a%1B%5B2J")]
    assert problem.reason.code == "read.unsafe_name"


# Copies


def test_with_a_cache_data_is_fetched_once(
    comparisons: Comparisons, proxied: str, proxy: Proxy, tmp_path: Path, expected: object
) -> None:
    cache = tmp_path / "cache"
    assert comparisons.result(proxied, "--cache", cache) == expected
    before = proxy.nbytes
    assert comparisons.result(proxied, "--cache", cache) == expected
    assert proxy.nbytes - before < before / 4
    assert all(path.resolve().is_relative_to(cache) for path in cache.rglob("*"))


def test_tensors_above_the_limit_have_the_reason(comparisons: Comparisons, on_ssh: str) -> None:
    outcome, out = comparisons.run(on_ssh, "--memory", "2000", "--no-html")
    assert outcome.code == 0
    (table,) = out.glob("result_*.csv")
    assert "exceed the limit of 2000 for remote data in memory (none with --cache DIR)" in table.read_text()
