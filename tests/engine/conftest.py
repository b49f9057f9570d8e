"""Runs the engine's tests on one thread: the tensors are tiny, and two threads only wait for each other."""

import torch

torch.set_num_threads(1)
