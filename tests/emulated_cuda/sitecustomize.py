"""Gives each Python process that has this folder on PYTHONPATH a CUDA device, an emulated one.

EMULATED_CUDA_WAITS names a file that gets, as JSON, where the process has waited for the device.
"""

import atexit
import json
import os
from pathlib import Path

import emulated_device
import emulated_streams
import torch

if waits := os.environ.get("EMULATED_CUDA_WAITS"):
    atexit.register(lambda: Path(waits).write_text(json.dumps(emulated_device.waits)))

# Inductor has no code for this device: what is compiled, and captured, is the eager code
torch.compile = lambda function, **_: function
emulated_streams.start()
emulated = emulated_device.emulated()
emulated.__enter__()
atexit.register(emulated.__exit__, None, None, None)
