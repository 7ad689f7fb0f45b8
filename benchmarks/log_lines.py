"""Lines of logs in the forms that real programs print, for the benchmark of reading them."""

from __future__ import annotations

from collections.abc import Callable

_TIMERS = (
    *(("forward-backward", 300.0), ("forward-compute", 94.8), ("backward-compute", 200.5)),
    *(("batch-generator", 3.5), ("layernorm-grads-all-reduce", 0.02), ("all-grads-sync", 12.5)),
    *(("embedding-grads-all-reduce", 0.03), ("optimizer-copy-to-main-grad", 0.4)),
    *(("optimizer-clip-main-grad", 2.5), ("optimizer", 20.5)),
)


def _clock(step: int) -> str:
    return f"2026-03-06 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"


def _megatron(step: int) -> str:
    return (
        f" [{_clock(step)}.000000] iteration {step:8}/  500000 | "
        f"consumed samples: {64 * step:12} | "
        f"elapsed time per iteration (ms): {349.5 + step % 7:.1f} | throughput per GPU "
        f"(TFLOP/s/GPU): {410 + step % 9:.1f} | learning rate: 1.070E-04 | "
        f"global batch size:    64 | lm loss: {4 + step % 100 / 100:.6E} | loss scale: 131072.0 | "
        "grad norm: 0.774 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def _with_ten_timers(step: int) -> str:
    timers = (
        f"    {name} {'.' * (46 - len(name))}: ({ms:.2f}, {ms + 1:.2f})\n" for name, ms in _TIMERS
    )
    return f"{_megatron(step)}(min, max) time across ranks (ms):\n{''.join(timers)}"


def _with_bar_timers(step: int) -> str:
    timers = " | ".join(f"{name}: {ms + step % 7:.2f}" for name, ms in _TIMERS)
    return f"{_megatron(step)}time (ms) | {timers}\n"


def _deepspeed(step: int) -> str:
    start, rate = f"[{_clock(step)},115] [INFO]", 171.8 + step % 7 / 100
    return (
        f"{start} [logging.py:96:log_dist] [Rank 0] step={10 * step}, skipped=6, lr=[9.62e-06], "
        f"mom=[(0.9, 0.95)]\n{start} [timer.py:199:stop] epoch=0/micro_step={10 * step}/"
        f"global_step={10 * step}, RunningAvgSamplesPerSec={rate}, CurrSamplesPerSec={rate}, "
        "MemAllocated=3.96GB, MaxMemAllocated=22.95GB\n"
    )


def _fairseq(step: int) -> str:
    return (
        f'{_clock(step)} | INFO | train_inner | {{"epoch": 1, "update": 0.294, "loss": '
        f'"7.{719 + step % 99}", "ppl": "210.74", "wps": "{11732.8 + step % 9}", "ups": "23.35", '
        f'"wpb": "503.6", "bsz": "8", "num_updates": "{step + 1}", "lr": "0.0005", '
        '"gnorm": "1.216", '
        '"loss_scale": "128", "train_wall": "0", "wall": "2"}\n'
    )


def _torchtitan(step: int) -> str:
    return (
        f"[titan] {_clock(step)},000 - root - INFO - \x1b[31mstep: {step:6}  \x1b[32mloss:  "
        f"{7 + step % 9 / 10:.5f}  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[33mmemory: "
        f"42.10GiB(53.20%)  \x1b[34mtps: 6,{step % 900:03}  \x1b[36mtflops: 312.45  "
        "\x1b[35mmfu: 31.59%\x1b[39m\n"
    )


def _own_script(step: int) -> str:
    return (
        f"step {step}/500000 loss {4 + step % 100 / 100:.4f} lr 1e-04 step time "
        f"{350 + step % 9:.1f} ms samples/s {51 + step % 7 / 10:.2f}\n"
    )


def _json(step: int) -> str:
    return (
        f'{{"step": {step}, "loss": {4 + step % 100 / 100:.4f}, "learning_rate": 0.0001, '
        f'"grad_norm": 1.25, "tokens_per_second": {51000 + step % 900}, "epoch": 0.5}}\n'
    )


def _mmcv(step: int) -> str:
    epoch, batch = divmod(50 * step, 7500)
    return (
        f"{_clock(step)},494 - mmdet - INFO - Epoch [{epoch + 1}][{batch + 50}/7500]\t"
        "lr: 0.00125, "
        "eta: 4:44:04, time: 0.593, data_time: 0.031, memory: 6836, loss_cls: 0.1861, acc: 94.1, "
        f"loss_bbox: 0.1375, loss: 0.{4606 + step % 99}\n"
    )


def _mlperf(step: int) -> str:
    return (
        f':::MLLOG {{"namespace": "", "time_ms": {1_700_000_000_000 + 5400 * step}, "event_type": '
        '"POINT_IN_TIME", "key": "tracked_stats", "value": {"train_step_time": 5.4, '
        f'"reduced_train_loss": 2.{step % 99}}}, "metadata": {{"lineno": 518, '
        f'"step": {step + 1}}}}}\n'
    )


def _trainer(step: int) -> str:
    """Ten states of a bar, and a line."""

    def bar(done: int) -> str:
        clock = f"{done // 3600:02}:{done // 60 % 60:02}:{done % 60:02}"
        return f"\r   1%|########  | {done}/5000000 [{clock}<09:59:59,  1.00it/s]"

    states = "".join(map(bar, range(10 * step, 10 * step + 10)))
    return (
        f"{states}\r      \r{{'loss': '{4 + step % 100 / 100:.4f}', 'grad_norm': '1.02', "
        f"'learning_rate': '4.9e-05', 'epoch': '{step / 100:.4g}'}}\n{bar(10 * step + 10)}"
    )


def _long(step: int) -> str:
    return f"{_own_script(step)}INFO arguments: {'x' * 8000}\n"


# Each with the least MB/s that is wanted.
FORMATS: dict[str, tuple[Callable[[int], str], float]] = {
    "Megatron-LM": (_megatron, 100),
    "Megatron-LM, ten timer lines a step": (_with_ten_timers, 100),
    "Megatron-DeepSpeed, timers in a line": (_with_bar_timers, 100),
    "DeepSpeed": (_deepspeed, 100),
    "fairseq, JSON": (_fairseq, 30),
    "torchtitan, coloured": (_torchtitan, 30),
    "own script": (_own_script, 30),
    "JSON lines": (_json, 30),
    "mmcv": (_mmcv, 30),
    "MLPerf": (_mlperf, 30),
    "Trainer with its bar": (_trainer, 30),
    "lines of 8 kB": (_long, 30),
}
