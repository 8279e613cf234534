"""MP4 through the ffmpeg that comes with imageio-ffmpeg: H.264, as every browser plays it."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import FormatError

_PATIENCE: Final = 600.0  # seconds that the last frames may take
_SHOWN: Final = 2000  # characters of what ffmpeg says


class Mp4:
    """A film that ffmpeg writes; frames go to it through a pipe.

    Parameters
    ----------
    path
        Of the file.
    size
        Width and height; both even.
    fps
        Frames per second.
    quality
        0 to 100; 100 is the best.

    Raises
    ------
    FormatError
        If there is no ffmpeg.
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: float, quality: int) -> None:
        program = _ffmpeg()
        # Quality 100 to 0 is the encoder's 10 to 35; 18 cannot be told from the original.
        factor = round(35 - 0.25 * quality)
        command = [
            program, "-hide_banner", "-loglevel", "error", "-nostdin", "-y",
            "-f", "rawvideo", "-pix_fmt", "rgb0", "-s", f"{size[0]}x{size[1]}",
            "-r", f"{fps:.6g}", "-i", "-",
            # Colours by the rules of HD, and said to be so: players guess by size otherwise.
            "-vf", "scale=in_range=full:out_range=tv:out_color_matrix=bt709:flags=accurate_rnd",
            "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
            "-color_range", "tv",
            "-c:v", "libx264", "-preset", "veryfast", "-crf", str(factor), "-pix_fmt", "yuv420p",
            "-movflags", "+faststart", "-an", "-f", "mp4", str(path),
        ]  # fmt: skip
        self._said: Any = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        # A session of its own: Ctrl-C comes to us, and we end it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
        )

    def add(self, pixels: NDArray[np.uint32]) -> None:
        """Write the next frame, packed RGB, shape ``(height, width)``."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(pixels).data)
        except BrokenPipeError:
            self._process.wait()
            raise self._failed() from None

    def close(self) -> None:
        """Wait until all is written."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the exit code tells
            self._process.stdin.close()
        if self._process.wait(_PATIENCE):
            raise self._failed()
        self._said.close()

    def abort(self) -> None:
        """End the process, whatever it is at."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._said.close()

    def _failed(self) -> OSError:
        self._said.seek(0)
        text = self._said.read().decode(errors="replace").strip()[-_SHOWN:]
        return OSError(f"ffmpeg ended with code {self._process.returncode}: {text or 'no reason'}")


def _ffmpeg() -> str:
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise FormatError(
            "an MP4 needs ffmpeg, and there is none: reinstall imageio-ffmpeg, which carries it, "
            "put ffmpeg on the PATH, or save as .gif, .webp or .apng"
        ) from error
