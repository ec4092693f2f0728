"""Tests run side by side: threads of one that wait busily for each other would take the others' time."""

import torch

torch.set_num_threads(1)
