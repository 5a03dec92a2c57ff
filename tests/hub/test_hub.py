"""torch.hub against a server on this machine, which answers for github.com and its API."""

import hashlib
import http.server
import io
import json
import os
import re
import sys
import threading
import urllib.request
import zipfile
from pathlib import Path
from urllib.error import ContentTooShortError, HTTPError, URLError

import pytest

import tritorch
from tritorch import hub

HUBCONF = """
dependencies = ["json"]
import helper_of_a_repository
def net(n, add=0):
    "A net."
    return [n + add, helper_of_a_repository.NAME]
def _hidden(): pass
"""


def archive(top, files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as out:
        out.writestr(f"{top}/", "")
        for name, text in files.items():
            out.writestr(f"{top}/{name}", text)
    return packed.getvalue()


def repository(name):
    return archive(
        f"me-nets-{name}", {"hubconf.py": HUBCONF, "helper_of_a_repository.py": f"NAME = '{name}'"}
    )


class Github:
    """Answers by path (a number: that status), and notes who asked with which authorization."""

    def __init__(self):
        self.pages, self.asked, self.token = {}, [], None
        self.forbidden = self.cut = False
        github = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                github.asked.append((self.path, self.headers.get("Authorization")))
                page = github.pages.get(self.path, 404)
                if github.forbidden and self.headers.get("Authorization"):
                    page = 403
                self.send_response(page if isinstance(page, int) else 200)
                body = b"" if isinstance(page, int) else page
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if github.cut else body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def offer(self, ref, *names):
        """A repository me/nets with this ref, which the API lists on the second page."""
        self.pages[f"/me/nets/zipball/{ref}"] = repository(ref.replace("/", "-"))
        others = [{"name": f"b{i}", "commit": {"sha": f"{i:040x}"}} for i in range(100)]
        page = "/repos/me/nets/{}?per_page=100&page={}"
        self.pages[page.format("branches", 1)] = json.dumps(others).encode()
        listed = [{"name": name, "commit": {"sha": "feed" * 10}} for name in names]
        for kind, items in (("branches", []), ("tags", listed)):
            first = 2 if kind == "branches" else 1
            self.pages[page.format(kind, first)] = json.dumps(items).encode()
            self.pages[page.format(kind, first + 1)] = b"[]"

    def open(self, request):
        url = request if isinstance(request, str) else request.full_url
        headers = {} if isinstance(request, str) else dict(request.header_items())
        there = re.sub(r"^https://(api\.)?github\.com", self.address, url)
        return urllib.request.urlopen(urllib.request.Request(there, headers=headers))

    def downloads(self):
        return [path for path, _ in self.asked if "zipball" in path]


@pytest.fixture
def github(tmp_path, monkeypatch):
    server = Github()
    monkeypatch.setattr(hub, "urlopen", server.open)
    monkeypatch.setattr(hub, "_hub_dir", str(tmp_path / "hub"))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    yield server
    server.server.shutdown()
    server.server.server_close()
    sys.modules.pop("helper_of_a_repository", None)


@pytest.fixture
def answers(monkeypatch):
    """What the user says when he is asked; an empty list: nobody must ask."""
    given = []
    monkeypatch.setattr("builtins.input", lambda text: given.pop(0))
    return given


# ---- repositories --------------------------------------------------------------------------------


def test_load_downloads_once_and_runs_hubconf(github, answers, capsys):
    github.offer("v1", "v1")
    path = list(sys.path)
    assert hub.load("me/nets:v1", "net", 2, add=3, trust_repo=True) == [5, "v1"]
    assert sys.path == path
    folder = os.path.join(hub.get_dir(), "me_nets_v1")
    assert capsys.readouterr().out == (
        f'Downloading: "https://github.com/me/nets/zipball/v1" to '
        f"{os.path.join(hub.get_dir(), 'v1.zip')}\n"
    )
    assert sorted(os.listdir(hub.get_dir())) == ["me_nets_v1", "trusted_list"]
    github.asked.clear()
    assert hub.list("me/nets:v1") == ["net"]
    assert hub.help("me/nets:v1", "net") == "A net."
    assert not github.asked
    assert capsys.readouterr().err == f"Using cache found in {folder}\n" * 2
    hub.load("me/nets:v1", "net", 1, verbose=False)
    assert capsys.readouterr().err == ""
    hub.load("me/nets:v1", "net", 1, force_reload=True)
    assert len(github.downloads()) == 1


def test_refs(github):
    assert hub._parse_repo_info("a/b:c/d") == ("a", "b", "c/d")
    assert hub._parse_repo_info("me/nets") == ("me", "nets", "master")  # no page of main: 404
    github.pages["/me/nets/tree/main/"] = b"there"
    assert hub._parse_repo_info("me/nets") == ("me", "nets", "main")
    github.pages["/me/nets/tree/main/"] = 500
    with pytest.raises(HTTPError, match="500"):
        hub._parse_repo_info("me/nets")
    github.offer("ci/slash", "ci/slash")
    assert hub.load("me/nets:ci/slash", "net", 0, trust_repo=True)[1] == "ci-slash"
    assert os.path.isdir(os.path.join(hub.get_dir(), "me_nets_ci_slash"))


def test_without_a_network_what_was_downloaded_serves(github, monkeypatch):
    def lost(request):
        raise URLError("no route")

    monkeypatch.setattr(hub, "urlopen", lost)
    with pytest.raises(RuntimeError, match="no internet connection and the repo could not be foun"):
        hub.list("me/nets")
    folder = os.path.join(hub.get_dir(), "me_nets_master")
    os.makedirs(folder)
    with open(os.path.join(folder, "hubconf.py"), "w") as file:
        file.write("def net(): return 7")
    assert hub.load("me/nets", "net") == 7


def test_an_ambiguous_ref_is_a_branch(github):
    github.offer("refs/heads/v1", "v1")
    github.pages["/me/nets/zipball/v1"] = 300
    with pytest.warns(UserWarning, match="The ref v1 is ambiguous. Perhaps it is both a tag and a"):
        assert hub.load("me/nets:v1", "net", 0, trust_repo=True)[1] == "refs-heads-v1"


def test_commits_of_forks_are_refused(github, monkeypatch):
    github.offer("dead", "v1")
    wanted = r"Cannot find dead in https://github.com/me/nets. If it's a commit from a forked repo,"
    with pytest.raises(ValueError, match=wanted):
        hub.load("me/nets:dead", "net", 0, trust_repo=True)
    assert not github.downloads()
    assert hub.load("me/nets:dead", "net", 0, skip_validation=True)[1] == "dead"
    github.offer("feedf", "v1")  # the head of a tag
    assert hub.load("me/nets:feedf", "net", 0)[0] == 0
    # A token is sent, and left out once it is refused.
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    github.asked.clear()
    hub._validate_not_a_forked_repo("me", "nets", "v1")
    assert {sent for _, sent in github.asked} == {"token secret"}
    github.forbidden = True
    github.asked.clear()
    hub._validate_not_a_forked_repo("me", "nets", "v1")
    assert [sent for _, sent in github.asked] == ["token secret", *[None] * (len(github.asked) - 1)]
    monkeypatch.delenv("GITHUB_TOKEN")
    github.pages.clear()
    with pytest.raises(HTTPError, match="404"):
        hub._validate_not_a_forked_repo("me", "nets", "v1")


def test_trust(github, answers, capsys):
    trusted = Path(hub.get_dir(), "trusted_list")
    github.offer("v1", "v1", "v2")
    github.pages["/me/nets/zipball/v2"] = repository("v2")
    for trust, said in ((False, ""), ("check", "No"), ("check", "n")):
        answers.append(said)
        with pytest.raises(Exception, match="^Untrusted repository.$"):
            hub.load("me/nets:v1", "net", 0, trust_repo=trust)
        assert not answers
    answers.append("maybe")
    with pytest.raises(ValueError, match="^Unrecognized response maybe.$"):
        hub.load("me/nets:v1", "net", 0, trust_repo=False)
    assert trusted.read_text() == "" and not github.downloads()
    answers.append("y")
    hub.load("me/nets:v1", "net", 0)
    assert trusted.read_text() == "me_nets\n"
    hub.load("me/nets:v2", "net", 0)  # another ref of the same
    capsys.readouterr()
    answers.append("YES")
    hub.load("me/nets:v2", "net", 0, trust_repo=False)
    assert not answers and "The repository is already trusted." in capsys.readouterr().out
    trusted.unlink()
    hub.load("me/nets:v2", "net", 0)  # was downloaded before
    github.pages["/pytorch/nets/zipball/v1"] = repository("v1")
    hub.load("pytorch/nets:v1", "net", 0, skip_validation=True)
    assert trusted.read_text() == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../outside.py", "Archive entry contains directory traversal"),
        ("/outside.py", "Archive entry has absolute path"),
        ("C:outside.py", "Archive entry has absolute path"),
    ],
)
def test_archives_stay_in_their_folder(tmp_path, name, said):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr(name, "")
    with zipfile.ZipFile(tmp_path / "a.zip") as packed, pytest.raises(ValueError, match=said):
        hub._safe_extract_zip(packed, tmp_path / "in")
    assert os.listdir(tmp_path) == ["a.zip"]


def test_archives_do_not_follow_links(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("link/outside.py", "")
    said = "^Archive entry escapes target directory: link/outside.py$"
    with zipfile.ZipFile(tmp_path / "a.zip") as packed, pytest.raises(ValueError, match=said):
        hub._safe_extract_zip(packed, tmp_path / "in")
    assert not (tmp_path / "outside.py").exists()


def test_local_folders(tmp_path):
    (tmp_path / "hubconf.py").write_text("def net(n): return [n]\nvalue = 3")
    assert hub.load(str(tmp_path), "net", 3, source="LOCAL") == [3]
    for name in ("nets", "value"):
        with pytest.raises(RuntimeError, match=f"^Cannot find callable {name} in hubconf$"):
            hub.load(str(tmp_path), name, source="local")
    with pytest.raises(ValueError, match='^Unknown source: "web". Allowed values: "github" | "lo'):
        hub.load(str(tmp_path), "net", source="web")
    with pytest.raises(ValueError, match="^Invalid input: model should be a string of function na"):
        hub.load(str(tmp_path), len, source="local")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package', 'json', 'nor_this']")
    with pytest.raises(RuntimeError, match="^Missing dependencies: no_such_package, nor_this$"):
        hub.load(str(tmp_path), "net", source="local")
    assert str(tmp_path) not in sys.path


# ---- files ---------------------------------------------------------------------------------------


def test_downloads_are_whole_or_not_there(github, tmp_path, capsys):
    github.pages["/file"] = content = os.urandom(hub.READ_DATA_CHUNK * 2 + 5)
    digest = hashlib.sha256(content).hexdigest()
    url, target, kept = "https://github.com/file", tmp_path / "file", tmp_path / "ours"
    hub.download_url_to_file(url, str(target), hash_prefix=digest[:8])
    assert target.read_bytes() == content
    assert "100" in capsys.readouterr().err
    kept.touch()
    assert target.stat().st_mode == kept.stat().st_mode
    target.write_bytes(b"before")
    with pytest.raises(RuntimeError, match=f'^invalid hash value .expected "0x", got "{digest}".$'):
        hub.download_url_to_file(url, str(target), "0x", progress=False)
    github.cut = True
    with pytest.raises(ContentTooShortError, match=f"of {len(content)} bytes came before the con"):
        hub.download_url_to_file(url, str(target), progress=False)
    with pytest.raises(HTTPError, match="404"):
        hub.download_url_to_file(f"{url}s", str(target), progress=False)
    assert target.read_bytes() == b"before" and capsys.readouterr().err == ""
    assert sorted(os.listdir(tmp_path)) == ["file", "ours"]


def test_state_dicts(github, tmp_path, capsys):
    saved = io.BytesIO()
    tritorch.save({"w": tritorch.ones(2)}, saved)
    digest = hashlib.sha256(saved.getvalue()).hexdigest()
    name = f"net-{digest[:8]}.pth"
    github.pages[f"/{name}?raw=1"] = saved.getvalue()
    url, folder = f"https://github.com/{name}?raw=1", os.path.join(hub.get_dir(), "checkpoints")
    assert hub.load_state_dict_from_url(url, check_hash=True)["w"].tolist() == [1, 1]
    assert capsys.readouterr().out == f'Downloading: "{url}" to {folder}/{name}\n'
    on_meta = hub.load_state_dict_from_url(url, map_location="meta", weights_only=True)
    assert on_meta["w"].is_meta and len(github.asked) == 1
    hub.load_state_dict_from_url(url, str(tmp_path / "own"), file_name="net.pth", progress=False)
    assert os.listdir(folder) == [name] and os.listdir(tmp_path / "own") == ["net.pth"]
    with pytest.raises(RuntimeError, match='^invalid hash value .expected "00", got "'):
        hub.load_state_dict_from_url(url, check_hash=True, file_name="net-00.pth")
    assert os.listdir(folder) == [name]


def test_a_checkpoint_packed_by_hand(github):
    saved, packed = io.BytesIO(), io.BytesIO()
    tritorch.save({"w": tritorch.ones(2)}, saved, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(packed, "w") as out:
        out.writestr("inner.pth", saved.getvalue())
    github.pages["/net.zip"] = packed.getvalue()
    with pytest.warns(FutureWarning, match="will be deprecated in favor of default zipfile format"):
        found = hub.load_state_dict_from_url("https://github.com/net.zip", weights_only=True)
    assert found["w"].tolist() == [1, 1]


def test_folders(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_hub_dir", None)
    for name in ("TORCH_HOME", "XDG_CACHE_HOME", "TORCH_HUB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / ".cache" / "torch" / "hub")
    monkeypatch.setenv("XDG_CACHE_HOME", "~/kept")
    assert hub.get_dir() == str(tmp_path / "kept" / "torch" / "hub")
    monkeypatch.setenv("TORCH_HOME", "/home of torch")
    assert hub.get_dir() == "/home of torch/hub"
    hub.set_dir("~/ours")
    assert hub.get_dir() == str(tmp_path / "ours")
    monkeypatch.setenv("TORCH_HUB", "1")
    with pytest.warns(
        UserWarning, match="^TORCH_HUB is deprecated, please use env TORCH_HOME inst"
    ):
        hub.get_dir()
