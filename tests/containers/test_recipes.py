"""What an image is made of: configuration, Containerfile, wheels. No engine is needed."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import zipfile
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest

from binref_sci import Tesseract
from binref_sci.cli.boxed import image_of
from binref_sci.containers import gathering, slim, wheel
from binref_sci.containers.containerfile import containerfile
from binref_sci.containers.copying import copy_folder
from binref_sci.containers.engine import Engine, checked_image, find_engine
from binref_sci.containers.gathering import Interpreter
from binref_sci.containers.lending import check_input, lend
from binref_sci.containers.listing import schema
from binref_sci.containers.options import Options
from binref_sci.containers.serving import _free_port, reachable
from binref_sci.errors import (
    ContainerError,
    EngineError,
    FormatError,
    ImageNotFoundError,
    PayloadError,
)
from binref_sci.runtime.component import Component
from binref_sci.runtime.config import read_config
from tests.serving import COMMAND, ENVIRONMENT

API = """
from pydantic import BaseModel
__version__ = "0.3"
class InputSchema(BaseModel):
    pass
class OutputSchema(BaseModel):
    pass
def apply(inputs):
    return OutputSchema()
"""


def configured(folder, text):
    (folder / "tesseract_config.yaml").write_text(text)
    return folder


def test_the_template_of_tesseract_core_is_understood(tmp_path):
    config = read_config(
        configured(
            tmp_path,
            'name: "heat"\nversion: "1.2.3"\ndescription: ""\nbuild_config:\n'
            '  target_platform: "native"\n  extra_packages:\n  # - package_name\n  package_data:\n'
            "    - [a/b.txt, c.txt]\n  requirements:\n    provider: uv-pip\n",
        )
    )
    assert (config.name, config.version) == ("heat", "1.2.3")
    assert config.build_config.extra_packages == ()
    assert config.build_config.package_data == (("a/b.txt", "c.txt"),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: heat\nversion: 1.10", "version: .*found 1.1; write it in quotes"),
        ("name: heat\nbase: x", "base: there is no such field"),
        ("name: heat\nversion: 'a b'", "version: 'a b' is no version"),
        ("name: heat\nenv: {'A B': x}", "'A B' is no name of an environment variable"),
        ('name: heat\nenv: {A: "x\\ny"}', "the value of 'A' must be one line"),
        ("name: heat\nbuild_config: {package_data: [[../x, y]]}", "inside the component's folder"),
        ("name: heat\nbuild_config: {extra_packages: ['gcc; rm']}", "no name of a Debian package"),
        ('name: heat\nbuild_config: {base_image: "a\\nRUN b"}', "must be one word"),
        ("name: heat\nbuild_config: {requirements: {provider: conda}}", "provider"),
        ("- name", "must hold fields"),
        ("name: [", "is no YAML"),
        ("version: '1'", "name"),
    ],
)
def test_a_mistake_in_the_configuration_is_named(tmp_path, text, told):
    with pytest.raises(PayloadError, match=told):
        read_config(configured(tmp_path, text))


def test_a_component_is_called_as_its_configuration_says(tmp_path):
    (tmp_path / "tesseract_api.py").write_text(API)
    plain = Component.load(tmp_path)
    assert (plain.name, plain.version) == (tmp_path.name, "0.3")
    configured(tmp_path, "name: heat\nversion: '1.2'\nlater_field: 1\n")
    component = Component.load(tmp_path)
    assert (component.name, component.version) == ("heat", "1.2")
    configured(tmp_path, "name: heat\n")
    assert Component.load(tmp_path).version == "0.3"


def test_the_containerfile_keeps_what_it_is_given_apart(tmp_path):
    config = read_config(
        configured(
            tmp_path,
            "name: heat\nenv: {A: '\"$B\\'}\nbuild_config: {extra_packages: [gcc, g++]}\n",
        )
    )
    lines = containerfile(config, "debian:bookworm-slim").splitlines()
    assert 'ENV A="\\"\\$B\\\\"' in lines
    assert any("apt-get install -y --no-install-recommends gcc g++ &&" in line for line in lines)
    assert "USER 9999:9999" in lines


def test_the_wheel_of_this_package_is_whole_and_the_same_each_time(tmp_path):
    (tmp_path / "b").mkdir()
    first, second = wheel.pack(tmp_path), wheel.pack(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
    assert {"binref_sci/__init__.py", "binref_sci/py.typed", "binref_sci/containers/keeper.py"} <= (
        set(names)
    )
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*command, "--target", target, first], check=True)
    code = "import binref_sci; print(binref_sci.__file__); from binref_sci.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "--version"],
        env=ENVIRONMENT | {"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        str(target / "binref_sci" / "__init__.py"),
        "binref-sci",
        version("binref-sci"),
    ]


def test_the_bounds_of_the_slim_install_are_those_of_the_package():
    wanted = slim.requirements()
    assert len(wanted) == len(slim.SOLVER_SIDE)
    assert "pydantic>=2.12" in wanted
    assert not any("xarray" in each or "dask" in each for each in wanted)


def tiny_wheel(folder, name, requires=()):
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "")
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        lines += [f"Requires-Dist: {each}" for each in requires]
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_markers_are_judged_by_the_python_of_the_image(tmp_path):
    requires = ["for_old; python_version < '3.13'", "for_arm; platform_machine == 'aarch64'"]
    tiny_wheel(tmp_path, "solver", requires)
    tiny_wheel(tmp_path, "for_old")
    tiny_wheel(tmp_path, "for_arm")
    code = "import json; from pip._vendor.packaging.markers import default_environment as e; "
    told = subprocess.run(
        [sys.executable, "-c", code + "print(json.dumps(e()))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    markers = json.loads(told) | {"python_version": "3.14", "platform_machine": "aarch64"}
    python = Interpreter((3, 14), "aarch64", (2, 36), markers)
    arguments = ["download", "--no-index", "--find-links", str(tmp_path), "--dest"]
    arguments += [str(tmp_path / "there"), "--only-binary=:all:", "--python-version", "3.14"]
    gathering._pip([*arguments, "solver"], python, tmp_path)
    found = {path.name.partition("-")[0] for path in (tmp_path / "there").iterdir()}
    assert found == {"solver", "for_arm"}


@pytest.mark.long
def test_what_lies_in_the_folder_may_be_written_in_any_way_that_pip_knows(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name in ("wheels", "more", "there"):
        (tmp_path / name).mkdir()
    for name in "abcdef":
        tiny_wheel(tmp_path / "wheels", name)
    (tmp_path / "requirements.txt").write_text(
        "\ufeff./wheels/a-1.0-py3-none-any.whl[x]  # with an extra\n"
        "b[y] @ file:wheels/b-1.0-py3-none-any.whl\n"
        "wheels/c-1.0-py3-none-any.whl ; python_version >= '3.14'\n"
        "wheels/d-1.0-py3-none-any.whl ; python_version < '3.14'\n"
        "-e file:wheels/e-1.0-py3-none-any.whl\n"
        "-r more/list.txt\n"
        "numpy \\\n  >= 2.0\n"
    )
    (tmp_path / "more" / "list.txt").write_text(
        "-c bounds.txt\n./wheels/f-1.0-py3-none-any.whl\n-r ../requirements.txt\n"
    )
    python = Interpreter((3, 14), "x86_64", (2, 36), {"python_version": "3.14"})
    own = gathering._own(tmp_path / "requirements.txt", tmp_path / "there", python, tmp_path)
    there = f"{tmp_path}/there/{{}}-1.0-py3-none-any.whl{{}}"
    assert list(own) == [
        *(there.format(*each) for each in (("a", "[x]"), ("b", "[y]"), ("c", ""), ("e", ""))),
        f"-c {tmp_path}/more/bounds.txt",
        there.format("f", ""),
        "numpy   >= 2.0",
    ]


@pytest.mark.parametrize(
    ("component", "image"),
    [("heat", "heat"), ("image:./heat", "./heat"), ("registry.org/a/heat:1.0", "registry.org/a/heat:1.0"),
     ("here", None), ("./nowhere", None), ("/nowhere", None), ("nowhere/", None), ("no.py", None)],
)  # fmt: skip
def test_a_path_or_an_image(tmp_path, monkeypatch, component, image):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert image_of(component) == image


def test_without_an_engine_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="need podman or docker, which is not on PATH"):
        find_engine()
    with pytest.raises(EngineError, match="need docker, which"):
        Tesseract.from_image("heat", engine="docker")
    with pytest.raises(ValueError, match="engine must be one of podman, docker, not 'lxc'"):
        find_engine("lxc")
    done = subprocess.run(
        [*COMMAND, "images"],
        env=ENVIRONMENT | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "not on PATH" in done.stderr) == (1, True)
    for component, code in (("no_such_folder", 2), ("image:heat", 1)):
        done = subprocess.run(
            [*COMMAND, "run", component, "apply", "{}"],
            env=ENVIRONMENT | {"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, "not on PATH" in done.stderr) == (code, True)
        assert ("no such folder or file" in done.stderr) == (code == 2)


def test_a_service_that_is_down_is_told_from_a_missing_image():
    docker = Engine("docker", Path("docker"))
    down = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    assert "service does not answer" in str(docker.failure("docker run", down, 125))
    missing = "docker: Error response from daemon: No such image: heat:latest."
    assert isinstance(docker.failure("docker run", missing, 125), ImageNotFoundError)


def test_a_caller_without_rights_is_himself_in_the_container(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(os, "getegid", lambda: 56)
    podman = Options().arguments(Engine("podman", Path("podman")))
    assert podman == ["--user", "1234:56", "--userns", "keep-id"]
    assert Options().arguments(Engine("docker", Path("docker"))) == ["--user", "1234:56"]


def test_options_that_cannot_be_meant_are_refused():
    with pytest.raises(ValueError, match="port must be"):
        Options(port=0)
    with pytest.raises(ValueError, match="cpus must be"):
        Options(cpus=0)
    with pytest.raises(ValueError, match="volumes are given as a list"):
        Options(volumes="/a:/b")
    with pytest.raises(ValueError, match="no way to call"):
        Options(network="none").publishing()
    with pytest.raises(TypeError, match="port must be a whole number, got '8000'"):
        Options(port="8000")
    for wrong in ({"A": 1}, {"A": None}, {1: "a"}):
        with pytest.raises(TypeError, match="environment variables are text"):
            Options(environment=wrong)
    for wrong in ({"": "a"}, {"A=B": "a"}, {"A": "a\0"}):
        with pytest.raises(ValueError, match="cannot have this name or value"):
            Options(environment=wrong)


@pytest.mark.parametrize("name", ["", "-x", "--privileged"])
def test_an_option_of_the_engine_is_no_image(name):
    with pytest.raises(PayloadError, match="is no name that an image can have"):
        schema(Engine("podman", Path("/nowhere")), name)
    with pytest.raises(PayloadError, match="is no name that an image can have"):
        checked_image(name)
    with pytest.raises(TypeError, match="must be the name of an image, got None"):
        checked_image(None)


def test_an_input_path_that_the_container_could_not_read_is_told_before(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tmp_path.chmod(0o750)
    with pytest.raises(PayloadError, match=r"has mode 0750, .*runs as user 9999.*o\+rX"):
        check_input(tmp_path)
    tmp_path.chmod(0o755)
    check_input(tmp_path)
    for missing in (tmp_path / "nothing", Path(__file__)):
        with pytest.raises(PayloadError, match="is not a folder, or does not exist"):
            check_input(missing)


def test_a_file_is_not_lent_as_an_output_path(tmp_path):
    (tmp_path / "file").touch()
    with ExitStack() as stack, pytest.raises(FormatError, match="there is a file of this name"):
        lend(tmp_path / "file", stack)


def test_links_of_a_folder_stay_links_inside_and_become_copies_outside(tmp_path):
    data, other = tmp_path / "data", tmp_path / "other"
    for folder in (data / "sub", other):
        folder.mkdir(parents=True)
    (data / "a").write_text("a")
    (other / "b").write_text("b")
    leads = {"file": "a", "loop": ".", "sub/up": "..", "out": "../other", "one": str(other / "b")}
    for name, where in leads.items():
        (data / name).symlink_to(where)
    copy_folder(data, tmp_path / "there")
    there = {
        str(path.relative_to(tmp_path / "there")): str(path.readlink())
        if path.is_symlink()
        else None
        for path in sorted((tmp_path / "there").rglob("*"))
    }
    inside = {name: leads[name] for name in ("file", "loop", "sub/up")}
    assert there == {"a": None, "sub": None, "out": None, "out/b": None, "one": None} | inside
    assert (tmp_path / "there" / "one").read_text() == "b"


def test_what_cannot_go_into_an_image_is_named(tmp_path):
    def refused(make, message):
        folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "data"
        folder.mkdir()
        make(folder / "odd")
        with pytest.raises(PayloadError, match=f"odd.*{message}"):
            copy_folder(folder, tmp_path / f"copy of {folder.parent.name}")

    refused(lambda path: path.symlink_to("nowhere"), "leads nowhere")
    refused(lambda path: path.symlink_to("../.."), "leads to a folder that holds it")
    refused(os.mkfifo, "is a named pipe")


def test_a_server_is_published_where_it_is_asked_for():
    assert Options(port=81).publishing() == ["--publish", "127.0.0.1:81:8000"]
    assert Options(port=81, host="::1").publishing() == ["--publish", "[::1]:81:8000"]
    assert Options(network="host").publishing() == []
    addresses = {host: reachable(host) for host in ("127.0.0.1", "0.0.0.0", "::", "fe80::1", "")}
    assert list(addresses.values()) == ["127.0.0.1", "127.0.0.1", "[::1]", "[fe80::1]", "127.0.0.1"]


def test_a_free_port_is_held_for_podman_alone():
    podman, docker = (Engine(name, Path(name)) for name in ("podman", "docker"))
    with ExitStack() as held:
        port = _free_port(podman, "127.0.0.1", held)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as engines:
            engines.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            engines.bind(("127.0.0.1", port))
            engines.listen()
    with ExitStack() as held, socket.socket() as engines:
        engines.bind(("127.0.0.1", _free_port(docker, "127.0.0.1", held)))
    with (
        ExitStack() as held,
        pytest.raises(ContainerError, match="cannot listen on host"),
    ):
        _free_port(podman, "192.0.2.1", held)
