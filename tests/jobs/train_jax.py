"""A small training by JAX on all processes of a job: one array of data, divided among them.

All processes agree on the step at which they save: reached_preemption_sync_point, after SIGTERM.
"""

import argparse
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def loss_of(weights: jax.Array, inputs: jax.Array) -> jax.Array:
    return jnp.mean((inputs @ (weights - jnp.array([1.0, -2.0, 3.0]))) ** 2)


@jax.jit
def train_step(weights: jax.Array, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs)
    return weights - 0.02 * gradient, loss


def newest(folder: pathlib.Path) -> tuple[int, np.ndarray]:
    file = folder / "latest.npz"
    if not file.exists():
        return 0, np.zeros(3, np.float32)
    with np.load(file) as saved:
        return int(saved["step"]), saved["weights"]


def save(folder: pathlib.Path, step: int, weights: np.ndarray) -> None:
    draft = folder / "draft.npz"
    np.savez(draft, step=step, weights=weights)
    draft.replace(folder / "latest.npz")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--slow-from", type=int, help="in the first attempt, to be interrupted")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize()  # everything from Slurm's variables, and JAX_COORDINATOR_ADDRESS
    rank, world = jax.process_index(), jax.process_count()
    met = multihost_utils.process_allgather(jnp.ones(1)).sum()
    address = os.environ["JAX_COORDINATOR_ADDRESS"]
    print(f"rank {rank} of {world} counts {met:.0f} ranks, {jax.device_count()} devices, {address}")
    data = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    first, weights = newest(options.folder)
    for step in range(first + 1, options.steps + 1):
        if options.slow_from and first == 0 and step >= options.slow_from:
            time.sleep(0.5)
        own = np.random.default_rng([step, rank]).normal(size=(8, 3)).astype(np.float32)
        inputs = jax.make_array_from_process_local_data(data, own)
        weights, loss = train_step(weights, inputs)
        if rank == 0:
            print(f"step {step}/{options.steps} loss {float(loss).hex()}", flush=True)
        is_told = multihost_utils.reached_preemption_sync_point(step)
        if rank == 0 and (is_told or step % 50 == 0):
            save(options.folder, step, np.asarray(weights.addressable_data(0)))
        if is_told:
            break
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
