"""docker's own client, against podman's service, which answers as docker's daemon does."""

import shutil
import subprocess
import time

import pytest

from binref_sci import Tesseract, open_dataset
from binref_sci.containers.engine import find_engine
from binref_sci.containers.listing import containers, images
from binref_sci.errors import EngineError, ImageNotFoundError

pytestmark = [pytest.mark.long, pytest.mark.needs("podman"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def docker(tmp_path_factory):
    # The client alone is no package of Debian's, so a machine need not have it.
    if shutil.which("docker") is None:
        pytest.skip("docker's client is not installed")
    socket = tmp_path_factory.mktemp("service") / "podman.sock"
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen(
            ["podman", "system", "service", "--time", "0", f"unix://{socket}"],
            stderr=subprocess.DEVNULL,
        ) as service,
    ):
        try:
            for _ in range(200):
                if socket.exists():
                    break
                time.sleep(0.1)
            patch.setenv("DOCKER_HOST", f"unix://{socket}")
            yield find_engine("docker")
        finally:
            service.terminate()


def test_docker_and_podman_answer_alike(docker, passthrough, tmp_path):
    assert passthrough in [name for each in images(docker) for name in each.names]
    with Tesseract.from_image(
        passthrough, engine="docker", output_path=tmp_path / "out", lazy=True
    ) as component:
        result = component.apply({"size": 4, "steps": 2}, run_id="one")
        found = [each for each in containers(docker) if each.output_path == str(tmp_path / "out")]
        assert [(each.state, each.component) for each in found] == [
            ("running", "binref_passthrough")
        ]
        assert found[0].url in repr(component)
    assert result["trajectory"].shape == (3, 4, 4)
    assert open_dataset(tmp_path / "out" / "run_one").trajectory.shape == (3, 4, 4)
    assert not [each for each in containers(docker) if each.name == found[0].name]
    with pytest.raises(ImageNotFoundError, match="docker has no image"):
        Tesseract.from_image("binref_sci_nowhere", engine="docker").serve()


def test_a_service_that_does_not_answer_is_told(docker, passthrough, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(EngineError, match="docker is installed, but its service does not answer"):
        Tesseract.from_image(passthrough, engine="docker").serve()
