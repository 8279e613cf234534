"""The image of a component: what is in it, what it says of itself, and the calls of it."""

import json
import os
import subprocess
import tarfile
import tomllib
from pathlib import Path

import numpy as np
import pytest

from binref_sci import BinrefArray, Tesseract, open_dataset
from binref_sci.containers.engine import Engine
from binref_sci.containers.listing import images
from binref_sci.containers.slim import SOLVER_SIDE
from tests.containers.conftest import PASSTHROUGH, ROOT, podman
from tests.serving import COMMAND, ENVIRONMENT
from tests.test_docs import run_page

pytestmark = [pytest.mark.long, pytest.mark.needs("podman"), pytest.mark.timeout(900)]

PAYLOAD = json.dumps({"inputs": {"size": 16, "steps": 20}})


def cli(*arguments, cwd=None, **options):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


@pytest.fixture(scope="module")
def in_process():
    with Tesseract.from_tesseract_api(PASSTHROUGH, output_format="json+binref") as component:
        return component.apply({"size": 16, "steps": 20})


def assert_equal(found, wanted):
    np.testing.assert_array_equal(found["trajectory"], wanted["trajectory"])
    np.testing.assert_array_equal(found["final"], wanted["final"])


def test_run_of_an_image_writes_what_a_run_in_this_process_does(passthrough, in_process, tmp_path):
    done = cli(
        *("run", passthrough, "apply", "--output-path", "./output"),
        *("--output-format", "json+binref", PAYLOAD),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "output/results.json\n"), done.stderr
    results = json.loads((tmp_path / "output" / "results.json").read_text())
    assert len(results["trajectory"]) == 21
    dataset = open_dataset(tmp_path / "output")
    np.testing.assert_array_equal(dataset.trajectory, in_process["trajectory"])
    owners = {path.stat().st_uid for path in (tmp_path / "output").rglob("*")}
    assert owners == {os.geteuid()}
    assert (tmp_path / "output").stat().st_uid == os.geteuid()
    assert list((tmp_path / "output").glob(".*")) == []


def test_from_image_gives_what_the_component_in_this_process_does(
    passthrough, in_process, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with Tesseract.from_image(
        passthrough, output_format="json+binref", output_path="./output"
    ) as component:
        assert component.health() == {"status": "ok"}
        assert_equal(component.apply({"size": 16, "steps": 20}), in_process)
        assert "serving binref_passthrough 1.0.0" in component.server_logs()
        lazy = component.apply({"size": 16, "steps": 20}, lazy=True)
        assert isinstance(lazy["final"], BinrefArray)
    assert_equal(lazy, in_process)  # the container has gone, its files have not
    owners = {path.stat().st_uid for path in (tmp_path / "output").rglob("*")}
    assert owners == {os.geteuid()}


def test_a_run_without_output_path_answers_on_standard_output(passthrough):
    payload = '{"inputs": {"size": 2, "steps": 0}}'
    done = cli("run", passthrough, "apply", "-", "--output-format", "json", input=payload)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["final"]["data"]["buffer"] == [[1.0, 1.0], [1.0, 1.0]]


def test_mistakes_and_failures_have_the_exit_codes_of_a_run_in_this_process(passthrough, tmp_path):
    done = cli("run", passthrough, "apply", '{"inputs": {"size": -1}}')
    assert done.returncode == 2
    assert "inputs.size" in done.stderr
    done = cli("run", passthrough, "apply", "{}", "--output-format", "json+binref")
    assert done.returncode == 2
    assert "--output-path" in done.stderr
    done = cli("run", "no_such_component", "apply", "{}")
    assert done.returncode == 2
    assert "no such folder or file" in done.stderr
    assert "podman has no image 'no_such_component'" in done.stderr
    done = cli("run", "image:binref_sci_no_such", "apply", "{}")
    assert (done.returncode, "podman has no image" in done.stderr) == (2, True)


def test_a_path_is_a_path_and_the_prefix_says_image(passthrough, tmp_path):
    # A folder of the image's very name: the folder is meant, unless the prefix is there.
    folder = tmp_path / passthrough
    folder.mkdir(parents=True)
    (folder / "tesseract_api.py").write_text("raise ArithmeticError('the folder')")
    done = cli("run", passthrough, "apply", "{}", cwd=tmp_path)
    assert "the folder" in done.stderr
    done = cli("run", f"image:{passthrough}", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("binref_passthrough 1.0.0\n")
    assert "diffusivity" in done.stdout
    done = cli("run", passthrough, "apply", "{}", "--memory", "1g", cwd=tmp_path)
    assert (done.returncode, "--memory is for containers" in done.stderr) == (2, True)


def test_the_image_says_what_it_is(passthrough, engine):
    (found,) = engine.inspect("image", passthrough)
    labels = found["Config"]["Labels"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert labels["org.opencontainers.image.title"] == "binref_passthrough"
    assert labels["org.opencontainers.image.version"] == "1.0.0"
    assert labels["binref-sci.version"] == version
    schema = json.loads(labels["binref-sci.schema"])
    component = Tesseract.from_tesseract_api(PASSTHROUGH)
    assert schema == component.openapi_schema
    assert found["Config"]["User"] == "9999:9999"
    told = json.loads(cli("images", "--json").stdout)
    (listed,) = [each for each in told if passthrough in each["names"]]
    assert listed["component"] == "binref_passthrough"
    assert listed["endpoints"] == ["apply"]


def test_an_image_that_is_removed_while_images_are_listed_is_left_out(
    passthrough, image_of, engine
):
    removed = image_of("")

    class Meanwhile(Engine):
        """After it has told which images there are, somebody removes one."""

        def run(self, *arguments, **options):
            told = super().run(*arguments, **options)
            if arguments[0] == "images":
                podman("rmi", "--force", removed)
            return told

    assert removed in [name for each in images(engine) for name in each.names]
    left = [name for each in images(Meanwhile(engine.name, engine.program)) for name in each.names]
    assert passthrough in left
    assert removed not in left


def inside(image, code):
    """What Python code prints in a container as it is run for a component."""
    command = ["run", "--rm", "--read-only", "--no-healthcheck", "--network", "none"]
    return podman(*command, "--entrypoint", "/opt/binref-sci/bin/python", image, "-c", code).stdout


def test_the_image_holds_the_solver_side_and_nothing_else(passthrough):
    heavy = ("xarray", "dask", "scipy", "matplotlib", "ipywidgets", "pandas", "httpx", "fsspec")
    code = f"""
from importlib.util import find_spec
from importlib.metadata import distributions
print(*(name for name in {heavy} if find_spec(name)))
print(*sorted(each.name.lower() for each in distributions()))
"""
    found, installed = inside(passthrough, code).splitlines()
    assert found == ""
    assert set(SOLVER_SIDE) <= set(installed.split())
    # Each of the list is used: what serves a component imports it.
    used = inside(
        passthrough,
        "import sys, binref_sci.cli.serve, binref_sci.cli.run, binref_sci.server.loop, "
        "binref_sci.server.worker; print(*sys.modules)",
    ).split()
    modules = {"pyyaml": "yaml"}
    # msgspec decodes journals, when one is read
    assert {modules.get(name, name) for name in SOLVER_SIDE} - {"msgspec"} <= set(used)


def test_the_image_can_be_written_to_nowhere_but_where_it_should(passthrough):
    code = """
import os
print(os.getuid(), os.getgid())
for folder in ("/", "/opt/binref-sci", "/tesseract", "/tesseract/input_data", "/usr", "/tmp"):
    try:
        open(f"{folder}/file", "w").close()
        print("written", folder)
    except OSError:
        pass
"""
    assert inside(passthrough, code).splitlines() == ["9999 9999", "written /tmp"]


def test_the_image_knows_whether_it_is_healthy(passthrough, engine):
    (found,) = engine.inspect("image", passthrough)
    check = found["Healthcheck"]["Test"]  # docker has it under Config
    assert (check[0], check[-1]) == ("CMD", "health")
    name = f"binref-sci-test-{os.getpid()}"
    command = ["run", "--detach", "--rm", "--no-healthcheck", "--name", name, passthrough]
    podman(*command, "serve")
    try:
        for _ in range(100):
            if podman("exec", name, *check[1:], check=False).returncode == 0:
                break
        else:
            raise AssertionError(podman("logs", name).stdout)
    finally:
        podman("rm", "--force", "--time", "0", name)
    done = podman("run", "--rm", "--no-healthcheck", passthrough, "health", check=False)
    assert done.returncode == 1


def test_the_image_is_usable_without_this_package(passthrough, tmp_path):
    done = podman(
        *(
            "run",
            "--rm",
            "--no-healthcheck",
            "--user",
            "0:0",
            "-v",
            f"{tmp_path}:/tesseract/output_data",
        ),
        *(passthrough, "apply", PAYLOAD, "--output-format", "json+binref"),
    )
    assert done.stdout.strip() == "/tesseract/output_data/results.json"
    assert open_dataset(tmp_path).trajectory.shape == (21, 16, 16)
    done = podman("run", "--rm", "--no-healthcheck", passthrough, "schema")
    assert json.loads(done.stdout)["info"]["title"] == "binref_passthrough"


def test_the_image_runs_as_a_cluster_runs_it(passthrough, tmp_path):
    """As `apptainer run --containall` does: as anybody, anywhere, read-only, on the host's network."""
    folder = tmp_path / "out"
    folder.mkdir()
    folder.chmod(0o777)
    done = podman(
        *("run", "--rm", "--no-healthcheck", "--read-only", "--tmpfs", "/tmp:rw,mode=1777"),
        *("--user", "54321:54321", "--workdir", "/", "--env", "HOME=/nowhere"),
        *("--network", "host", "-v", f"{folder}:/tesseract/output_data"),
        *(passthrough, "apply", PAYLOAD, "--output-format", "json+binref"),
    )
    assert done.stdout.strip() == "/tesseract/output_data/results.json"
    assert open_dataset(folder).trajectory.shape == (21, 16, 16)
    archive = tmp_path / "image.tar"
    podman("save", "--quiet", "--format", "docker-archive", "-o", archive, passthrough)
    with tarfile.open(archive) as files:
        (manifest,) = json.load(files.extractfile("manifest.json"))
        config = json.load(files.extractfile(manifest["Config"]))["config"]
    assert config["Entrypoint"][-1] == "binref_sci.cli.inside"


def test_a_platform_is_asked_for_in_every_step(engine, base, tmp_path):
    (tmp_path / "tesseract_api.py").write_text("")
    config = tmp_path / "tesseract_config.yaml"
    config.write_text("name: far\nbuild_config: {target_platform: linux/s390x}\n")
    done = cli("build", tmp_path, "--base", base)
    assert done.returncode == 1
    assert "target_platform 'linux/s390x'" in done.stderr
    assert "qemu-user-static" in done.stderr


@pytest.fixture
def uncompiled(base, tmp_path):
    """A base image whose Python has none of its modules compiled, as Docker's have not."""
    recipe = tmp_path / "Uncompiled"
    recipe.write_text(
        f"FROM {base}\nRUN find /usr/lib/python3* -name __pycache__ -exec rm -r {{}} +\n"
    )
    name = f"localhost/binref-sci-test-uncompiled:{os.getpid()}"
    podman("build", "--file", recipe, "--tag", name, tmp_path)
    yield name
    podman("rmi", "--force", name)


def test_requirements_and_further_files_are_in_the_image(engine, uncompiled, tmp_path):
    folder = tmp_path / "further"
    (folder / "packages" / "mesh_tools").mkdir(parents=True)
    (folder / "packages" / "pyproject.toml").write_text(
        '[project]\nname = "mesh-tools"\nversion = "3.1"\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    )
    (folder / "packages" / "mesh_tools" / "__init__.py").write_text("SIDES = 6\n")
    (folder / "tesseract_requirements.txt").write_text("./packages  # ours\nmsgspec\n")
    (folder / "mesh.txt").write_text("12")
    (folder / "shared").mkdir()
    (folder / "shared" / "more.txt").write_text("30")
    here = podman("info", "--format", "{{.Host.OS}}/{{.Host.Arch}}").stdout.strip()
    (folder / "tesseract_config.yaml").write_text(
        'name: further\nversion: "2.0.1"\nmetadata: {owner: mesh group}\n'
        "env: {GREETING: 'say \"$HOME\" \\ '}\n"
        "build_config:\n  package_data:\n    - [mesh.txt, mesh.txt]\n    - [shared, /opt/shared]\n"
        "  custom_build_steps:\n    - RUN echo 7 > /opt/seven\n"
        f"  target_platform: {here}\n  extra_packages: [libgomp1]\n"
    )
    (folder / "tesseract_api.py").write_text(
        "import ctypes, os\nfrom pathlib import Path\nfrom pydantic import BaseModel\nimport mesh_tools\n"
        "class InputSchema(BaseModel):\n    pass\n"
        "class OutputSchema(BaseModel):\n    total: int\n    text: str\n"
        "def apply(inputs):\n"
        "    here = Path(__file__).parent\n"
        "    files = [here / 'mesh.txt', Path('/opt/shared/more.txt'), Path('/opt/seven')]\n"
        "    total = sum(int(file.read_text()) for file in files) + mesh_tools.SIDES\n"
        "    ctypes.CDLL('libgomp.so.1')\n"
        "    return OutputSchema(total=total, text=os.environ['GREETING'])\n"
    )
    name = f"localhost/binref-sci-test-further:{os.getpid()}"
    done = cli("build", folder, "--tag", name, "--base", uncompiled)
    assert (done.returncode, done.stdout) == (0, f"{name}\n"), done.stderr
    try:
        code = "import asyncio, os; print(os.path.exists(asyncio.__cached__))"
        assert inside(name, code).strip() == "True"
        done = cli("run", name, "apply", '{"inputs": {}}', "--output-format", "json")
        assert json.loads(done.stdout) == {"total": 55, "text": 'say "$HOME" \\ '}
        (found,) = engine.inspect("image", name)
        assert json.loads(found["Config"]["Labels"]["binref-sci.metadata"]) == {
            "owner": "mesh group"
        }
    finally:
        podman("rmi", "--force", name)


def test_a_component_that_does_not_load_in_its_image_fails_the_build(
    engine, base, tmp_path, passthrough
):
    (tmp_path / "tesseract_api.py").write_text("import no_such_package_at_all\n")
    done = cli("build", tmp_path, "--tag", "localhost/binref-sci-test-broken", "--base", base)
    assert done.returncode == 1
    assert "no_such_package_at_all" in done.stderr
    assert "tesseract_requirements.txt" in done.stderr
    done = cli("build", tmp_path, "--base", "localhost/binref-sci-no-such-base")
    assert done.returncode == 1  # not there, and not to be fetched
    assert "binref-sci-no-such-base" in done.stderr
    assert Path(tmp_path, "tesseract_api.py").exists()


def test_the_code_of_the_how_to_page_runs(passthrough, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("howto/containers.md", binref_passthrough=passthrough)
