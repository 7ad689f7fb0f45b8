"""A small training by MPI: each rank has its share of the data, and an all-reduce sums gradients.

The sum is taken in the order of the ranks, so that it does not depend on the MPI library.
"""

import argparse
import os
import pathlib
import time

import numpy as np

STOP = os.environ.get("CLUSTERJOBS_STOP_FILE", "")
WANTED = np.array([1.0, -2.0, 3.0])


def gradient(weights: np.ndarray, step: int, rank: int, world: int) -> np.ndarray:
    """This rank's part of the gradient, and behind it that of the loss."""
    inputs = np.random.default_rng([step, rank]).normal(size=(8, 3))
    errors = inputs @ (weights - WANTED)
    return np.append(inputs.T @ errors, errors @ errors) / (8 * world)


def update(weights: np.ndarray, parts: np.ndarray) -> tuple[np.ndarray, float]:
    """The next weights, and the loss before them; `parts` has a row for each rank."""
    total = parts.sum(axis=0)
    return weights - 0.02 * total[:-1], float(total[-1])


def newest(folder: pathlib.Path) -> tuple[int, np.ndarray]:
    file = folder / "latest.npz"
    if not file.exists():
        return 0, np.zeros(3)
    with np.load(file) as saved:
        return int(saved["step"]), saved["weights"]


def save(folder: pathlib.Path, step: int, weights: np.ndarray) -> None:
    draft = folder / "draft.npz"
    np.savez(draft, step=step, weights=weights)
    draft.replace(folder / "latest.npz")


def main() -> None:
    from mpi4py import MPI

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--slow-from", type=int, help="in the first attempt, to be interrupted")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    rank, world = comm.Get_rank(), comm.Get_size()
    library = MPI.Get_library_version().split()[0]
    print(f"rank {rank} counts {comm.allreduce(1)} ranks, {library}, RANK {os.environ['RANK']}")
    first, weights = newest(options.folder)
    for step in range(first + 1, options.steps + 1):
        if options.slow_from and first == 0 and step >= options.slow_from:
            time.sleep(0.5)
        parts = comm.allgather(gradient(weights, step, rank, world))
        weights, loss = update(weights, np.stack(parts))
        if rank == 0:
            print(f"step {step}/{options.steps} loss {loss:.17g}", flush=True)
        is_told = comm.allreduce(bool(STOP) and pathlib.Path(STOP).exists(), op=MPI.LOR)
        if rank == 0 and (is_told or step % 50 == 0):
            save(options.folder, step, weights)
        if is_told:
            break


if __name__ == "__main__":
    main()
