"""Gives each Python process that has this folder on PYTHONPATH an emulated CUDA device.

EMULATED_CUDA_WAITS names a file for the places, as JSON, where the process has waited for the device.
"""

import atexit
import json
import os
from pathlib import Path

from transformer.verify.harness import emulated_device, emulated_streams

if waits := os.environ.get("EMULATED_CUDA_WAITS"):
    atexit.register(lambda: Path(waits).write_text(json.dumps(emulated_device.waits)))
emulated_streams.start()
