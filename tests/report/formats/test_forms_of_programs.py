"""Logs in forms like those of public programs, with known steps, speed and loss: right or unknown.

A part of the forms follows the print statement in a program's repository or a published log; the
others are variations of such lines. A number of the report that differs from the truth is a
failure; one that is missing only where the form is expected to show it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from clusterjobs.report.exports import run_data
from clusterjobs.report.logs.log import read_log, with_unnamed_steps
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job

SECONDS, BATCH, SEQUENCE, GPUS = 0.5, 32, 1024, 8
SAMPLES, TOKENS = BATCH / SECONDS, BATCH * SEQUENCE / SECONDS
EACH = TOKENS / GPUS
TRUTH = {"steps": 0, "step_seconds": SECONDS, "samples_per_second": SAMPLES}
TRUTH |= {"tokens_per_second": TOKENS}


def loss(step: int) -> float:
    return 11 / (1 + step / 200)


def clock(step: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    start = datetime.datetime(2025, 3, 6, 12, tzinfo=datetime.timezone.utc)
    return (start + datetime.timedelta(seconds=step * SECONDS)).strftime(form)


def since(step: int) -> str:
    return str(datetime.timedelta(seconds=int(step * SECONDS)))


def short(number: float) -> str:
    for unit in ("", "K", "M"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}B"


def bar(title: str, step: int, behind: str) -> str:
    passed = int(step * SECONDS)
    clock = f"{passed // 60:02}:{passed % 60:02}<08:20,  2.00it/s{behind}"
    return f"\r{title}:   1%|#         | {step}/1000 [{clock}]"


class Form(NamedTuple):
    """`line` of a step, from `first` on `every` steps. `shown`: what the report must find."""

    line: Callable[[int], str]
    shown: str = ""
    every: int = 10
    first: int | None = None
    count: int = 60
    steps: int | None = None  # if the step of the last line is another one


FORMS: Mapping[str, Form] = {
    "clu of JAX": Form(
        lambda x: (
            f"I0306 {clock(x, '%H:%M:%S')}.123456 139870 logging_writer.py:48] [{x}] "
            f"steps_per_second=2.0, train_accuracy=0.12, train_loss={loss(x):.5f}\n"
        ),
        "steps step_seconds loss",
        every=100,
    ),
    "BigDL": Form(
        lambda x: (
            f"{clock(x)} INFO  DistriOptimizer$:392 - [Epoch 2 93/1281][Iteration {x}][Wall Clock "
            f"{x * SECONDS:.7f}s] Trained {BATCH} records in {SECONDS} seconds. Throughput is "
            f"{SAMPLES} records/second. Loss is {loss(x):.5f}. Current learning rate is 0.0759.\n"
        ),
        "steps step_seconds loss",
        every=1,
    ),
    "MindSpore's times": Form(
        lambda x: (
            f"epoch: 1 step: {x}, loss is {loss(x):.6f}\n"
            f"epoch time: 500.000 ms, per step time: 500.000 ms\n"
        ),
        "steps step_seconds loss",
        every=1,
    ),
    "Lightning's names": Form(
        lambda x: (
            f"{clock(x)} Epoch 0: train/loss_step={loss(x):.3f}, train/loss_epoch=9.1, "
            f"global_step={x}, it/s=2.000\n"
        ),
        "steps step_seconds loss",
    ),
    "nanoGPT": Form(
        lambda x: f"iter {x}: loss {loss(x):.4f}, time {SECONDS * 1e3:.2f}ms, mfu 35.21%\n",
        "steps step_seconds loss",
        first=0,
    ),
    "milliseconds of a step": Form(
        lambda x: f"[{clock(x, '%H:%M:%S')}] step={x} train/loss={loss(x):.3f} step_ms=500\n",
        "steps step_seconds loss",
        every=1,
    ),
    "modded-nanogpt": Form(
        lambda x: f"step:{x}/1750 train_time:{x * 500}ms step_avg:499.98ms\n",
        "steps step_seconds",
        every=1,
    ),
    "nanotron": Form(
        lambda x: (
            f"[default0]:{clock(x, '%m/%d/%Y %H:%M:%S')} [INFO|DP=0|PP=0|TP=0|ip-26-0-160-225]: "
            f"iteration: {x} / 900 | consumed_tokens: {short(x * BATCH * SEQUENCE)} | "
            f"elapsed_time_per_iteration_ms: {short(SECONDS * 1e3)} | tokens_per_sec: "
            f"{short(TOKENS)} | tokens_per_sec_per_gpu: {short(EACH)} | global_batch_size: "
            f"{short(BATCH)} | lm_loss: {loss(x):.4g} | lr: 0.0003 | model_tflops_per_gpu: 54.2 | "
            f"hardware_tflops_per_gpu: 54.2 | grad_norm: 3.4 | cuda_memory_allocated: 2.51G\n"
        ),
        "steps step_seconds samples_per_second tokens_per_second loss",
        every=1,
    ),
    "lingua": Form(
        lambda x: (
            f"0: INFO    25-03-06 {clock(x, '%H:%M:%S.%f')} - {since(x)} - step: {x}  acc: 0  "
            f"loss: {loss(x):7.4f}  grad: 1.23e+00  flops: 3.12e+14  wps: {EACH:.2e}  iter:  0.5  "
            "data:  0.0012  lr: 3.00e-04  mem: 45%  pow: 600.0\n"
        ),
        "steps loss",
    ),
    "mistral-finetune": Form(
        lambda x: (
            f"{clock(x)} (UTC) - {since(x)} - train - INFO - step: {x:06} - done (%): 3.3 - loss: "
            f"{loss(x):.3f} - lr: 4.0e-06 - peak_alloc_mem (GB): 26.1 - alloc_mem (GB): 17.9 - "
            f"words_per_second: {EACH:.1f} - avg_words_per_second: {EACH:.1f} - ETA: "
            ">2025-12-31 06:50:16\n"
        ),
        "steps step_seconds loss",
        every=1,
        count=200,
    ),
    "open_clip": Form(
        lambda x: (
            f"{clock(x, '%Y-%m-%d,%H:%M:%S')} | INFO | Train Epoch: 0 [{x * BATCH:>8}/1000000 "
            f"({x * BATCH / 1e4:.0f}%)] Data (t): 0.012 Batch (t): 0.500, {SAMPLES:.4f}/s, 8.0/s/"
            f"gpu LR: 0.000005 Logit Scale: 14.286 Contrastive_loss: {loss(x):.5f} "
            f"({loss(x):.5f}) Loss: {loss(x):.5f} ({loss(x):.5f})\n"
        ),
        "samples_per_second step_seconds loss",
        every=100,
    ),
    "PyTorch's MNIST": Form(
        lambda x: f"Train Epoch: 1 [{x * 64}/60000 ({x / 9.4:.0f}%)]\tLoss: {loss(x):.6f}\n",
        "loss",
    ),
    "ESPnet": Form(
        lambda x: (
            f"[gpua006:0/4] {clock(x)},123 (trainer:793) INFO: 1epoch:train:{x - 49}-{x}batch: "
            f"iter_time=1.9e-04, forward_time=0.140, acc=0.2, loss={loss(x):.3f}, train_time=0.5\n"
        ),
        "steps step_seconds loss",
        every=50,
    ),
    "OpenNMT": Form(
        lambda x: (
            f"[{clock(x)},000 INFO] Step {x}/100000; acc:  12.30; ppl: 123.45; xent: {loss(x):.2f};"
            f" lr: 0.00010; {TOKENS / 2:.0f}/{TOKENS:.0f} tok/s; {x * SECONDS:6.0f} sec\n"
        ),
        "steps step_seconds loss",
        every=50,
    ),
    "Marian": Form(
        lambda x: (
            f"[{clock(x)}] Ep. 1 : Up. {x} : Sen. {x * BATCH:,} : Cost {loss(x):.8f} * 16,384 @ "
            f"2,380 after {x * 16384:,} : Time 250.00s : {TOKENS:.2f} words/s : gNorm 0.6358\n"
        ),
        "steps step_seconds loss",
        every=500,
    ),
    "prime-rl": Form(
        lambda x: (
            f"{clock(x, '%H:%M:%S')} SUCCESS Step {x} | Time: 0.50s | Loss: {loss(x):.4f} | Grad. "
            f"Norm: 1.2 | LR: 2.00e-05 | Throughput: {TOKENS:.0f} tokens/s | MFU: 31.2% | Peak "
            "Mem.: 70.1/79.1 GiB (88.6%)\n"
        ),
        "steps step_seconds tokens_per_second loss",
        every=1,
    ),
    "picotron": Form(
        lambda x: (
            f"[rank 0] Step: {x:<5d} | Loss: {loss(x):6.4f} | Global batch size: "
            f"{short(BATCH * SEQUENCE):>7s} | Tokens/s: {short(TOKENS):>7s} | Tokens/s/GPU: "
            f"{short(EACH):>7s} | Tokens: {short(x * 32768):>7s} | MFU: 38.21% | Memory usage: "
            " 12.34GB\n"
        ),
        "steps tokens_per_second loss",
        every=1,
    ),
    "Coqui": Form(
        lambda x: (
            f"\n\x1b[1m   --> TIME: {clock(x)} -- STEP: {x}/14000 -- GLOBAL_STEP: {x + 5000}\x1b[0m"
            f"\n     | > loss_text_ce: 0.03  (0.03)\n     | > loss: {loss(x)}  ({loss(x)})\n"
            "     | > step_time: 0.5  (0.9)\n     | > loader_time: 0.0120  (0.0179)\n"
        ),
        "steps step_seconds loss",
        steps=5600,
    ),
    "DLLogger, ResNet": Form(
        lambda x: (
            f"DLL {clock(x)}.123456 - epoch: 0 step: {x} train.loss : {loss(x):.5f} "
            f"train.total_ips : {SAMPLES:.2f} images/s train.data_time : 0.0123 s train.lr : 0.1\n"
        ),
        "steps samples_per_second loss",
    ),
    "DLLogger, BERT": Form(
        lambda x: (
            f"DLL {clock(x)}.123456 - Training Epoch: 0 Training Iteration: {x}  average_loss : "
            f"{loss(x) + 1:.5f}  step_loss : {loss(x):.5f}  learning_rate : 0.0001 \n"
        ),
        "steps step_seconds loss",
    ),
    "icefall": Form(
        lambda x: (
            f"{clock(x)},853 INFO [train.py:874] (0/8) Epoch 1, batch {x}, loss[loss={loss(x):.4f},"
            f" over 5678.00 frames. ], tot_loss[loss={loss(x) + 1:.4f}, over 22192.90 frames. ], "
            "batch size: 34, lr: 5.00e-02\n"
        ),
        "steps step_seconds loss",
        every=50,
    ),
    "TensorFlow's estimator": Form(
        lambda x: (
            f"INFO:tensorflow:global_step/sec: 2.0\nINFO:tensorflow:loss = {loss(x)}, step = {x} "
            "(50.000 sec)\n"
        ),
        "steps step_seconds loss",
        every=100,
        first=101,
    ),
    "tf_cnn_benchmarks": Form(
        lambda x: f"{x}\timages/sec: {SAMPLES:.1f} +/- 0.3 (jitter = 1.2)\t{loss(x):.3f}\n",
    ),
    "TensorFlow's ResNet": Form(
        lambda x: (
            f"I0306 {clock(x, '%H:%M:%S')}.1 140 keras_utils.py:145] TimeHistory: 50.00 seconds, "
            f"{SAMPLES:.2f} examples/second between steps {x - 100} and {x}\n"
        ),
        every=100,
    ),
    "Caffe": Form(
        lambda x: (
            f"I0411 {clock(x, '%H:%M:%S')}.65  9236 solver.cpp:218] Iteration {x} (2 iter/s, "
            f"50s/100 iters), loss = {loss(x):g}\nI0411 20:19:03.141  9236 sgd_solver.cpp:105] "
            f"Iteration {x}, lr = 0.01\n"
        ),
        "steps step_seconds loss",
        every=100,
    ),
    "Sockeye": Form(
        lambda x: (
            f"[{clock(x)}:INFO:sockeye.callback:__call__] Epoch[0] Batch [{x}]\tSpeed: "
            f"{SAMPLES:.2f} samples/sec {TOKENS:.2f} tokens/sec 2.00 updates/sec\tperplexity=12.3\n"
        ),
        "steps step_seconds samples_per_second tokens_per_second",
        every=50,
    ),
    "darknet": Form(
        lambda x: (
            f"{x}: {loss(x) + 1:.6f}, {loss(x):.6f} avg loss, 0.001 rate, 0.5 seconds, 64 images\n"
        ),
        every=1,
    ),
    "YOLOX": Form(
        lambda x: (
            f"{clock(x)} | INFO     | yolox.core.trainer:257 - epoch: 1/300, iter: {x}/1234, mem: "
            f"10240Mb, iter_time: 0.500s, data_time: 0.012s, total_loss: {loss(x):.3f}, iou_loss: "
            "3.2, cls_loss: 1.2, lr: 1.0e-05, size: 640, ETA: 4:44:04\n"
        ),
        "steps step_seconds loss",
    ),
    "PaddleDetection": Form(
        lambda x: (
            f"[03/06 12:00:00] ppdet.engine INFO: Epoch: [0] [{x:>4}/1234] learning_rate: 0.001 "
            f"loss: {loss(x):.6f} eta: 1:23:45 batch_cost: 0.5 data_cost: 0.01 ips: "
            f"{SAMPLES / GPUS:.4f} images/s\n"
        ),
        "steps step_seconds samples_per_second loss",
    ),
    "Paddle's steps of the training": Form(
        lambda x: (
            f"[2025/03/06 12:00:00] tool INFO: epoch: [1/9], global_step: {x}, lr: 0.1, loss: "
            f"{loss(x):.6f}, avg_reader_cost: 0.01 s, avg_batch_cost: 0.5 s, avg_samples: 4.0, "
            f"ips: {SAMPLES / GPUS:.5f} samples/s, eta: 0:32:33\n"
        ),
        "steps step_seconds samples_per_second loss",
        every=1,
    ),
    "decimal commas": Form(
        lambda x: f"step={x} samples/s={SAMPLES:.1f} tok/s={TOKENS:.1f}\n".replace(".", ","),
        "steps samples_per_second tokens_per_second",
    ),
    "steps with decimal commas": Form(
        lambda x: f"global_step={x},0 loss={loss(x):.3f} step_time=0,5\n".replace(".", ","),
        "",
        count=20,
    ),
    "Loguru's source lines": Form(
        lambda x: (
            f"{clock(x)}.291 | INFO     | tool.trainer:after_iter:282 - epoch: 1/20, iter: "
            f"{x}/2051, iter_time: 0.500s, data_time: 0.003s, total_loss: {loss(x):.3f}\n"
        ),
        "steps step_seconds loss",
    ),
    "counts of an epoch": Form(
        lambda x: (
            f"[batch={x}/4800]:\n    Train time/batch_in_epoch: {x - 1}\n    Train time/"
            f"token_in_epoch: {x * BATCH * SEQUENCE}\n    Train loss/train/total: {loss(x):.4f}\n"
            f"    Train throughput/samples_per_sec: {SAMPLES}\n"
        ),
        "steps samples_per_second loss",
        every=1,
    ),
    "a dictionary that says its step": Form(
        lambda x: (
            f"{{'loss': {loss(x):.4f}, 'epoch': {x / 900:.2f}, 'step': {x}, 'sec/it': 0.5}}\n"
        ),
        "steps step_seconds loss",
        every=1,
    ),
    "Swin": Form(
        lambda x: (
            f"[{clock(x)} swin_tiny_patch4] (main.py 240): INFO Train: [0/300][{x}/1251]\teta "
            f"0:12:34 lr 0.000001\t wd 0.0500\ttime 0.5000 (0.6123)\tloss {loss(x):.4f} (6.9)\t"
            "grad_norm 2.1 (2.2)\tloss_scale 65536.0\tmem 12345MB\n"
        ),
        "steps step_seconds loss",
    ),
    "DINOv2": Form(
        lambda x: (
            f"I20250306 {clock(x, '%H:%M:%S')} 1234 dinov2 helpers.py:102] Training  [{x:>6}/"
            f"125000]  eta: 1 day, 2:00:00  lr: 0.0001 (0.0001)  total_loss: {loss(x):.4f} (11.3)  "
            "dino_loss: 3.2 (3.3)  time: 0.500000  data: 0.0012  max mem: 12345\n"
        ),
        "steps step_seconds loss",
    ),
    "apex": Form(
        lambda x: (
            f"Epoch: [0][{x}/1251]\tTime 0.500 (0.512)\tSpeed {SAMPLES:.3f} (60.1)\tLoss "
            f"{loss(x):.10f} (7.0)\tPrec@1 0.1 (0.2)\tPrec@5 0.5 (0.6)\n"
        ),
        "steps step_seconds loss",
    ),
    "Transformer-XL": Form(
        lambda x: (
            f"| epoch   1 step {x:>8d} | {x:>6d} batches | lr 0.00025 | ms/batch 500.00 | loss "
            f"{loss(x):5.3f} | ppl  1234.567\n"
        ),
        "steps step_seconds loss",
    ),
    "OLMo": Form(
        lambda x: (
            f"{clock(x)}.000\tlumi:0\tolmo.train:967\tINFO\t[step={x}/739328,epoch=0]\n    optim/"
            f"total_grad_norm=1.2\n    train/CrossEntropyLoss={loss(x):.4f}\n    throughput/"
            f"total_tokens={x * 32768:,}\n    throughput/device/tokens_per_second={EACH:,.1f}\n"
            "    throughput/device/batches_per_second=2.0000\n"
        ),
        "steps step_seconds tokens_per_second loss",
        every=1,
    ),
    "OLMo-core": Form(
        lambda x: (
            f"{clock(x)}.000\thost:0\tolmo_core.train.callbacks.console_logger:108\tINFO\t[step={x}"
            f"/10000,epoch=1,eta=2:03:04]\n    optim/total grad norm=1.2\n    throughput/device/"
            f"BPS=2.0\n    throughput/device/TPS={EACH:,.0f}\n    throughput/device/TPS (actual "
            f"avg)={EACH / 2:,.0f}\n    throughput/device/MFU=32.1\n    train/CE loss={loss(x)}\n"
        ),
        "steps step_seconds tokens_per_second loss",
        every=1,
    ),
    "Levanter": Form(
        lambda x: (
            f"{clock(x)},667 - 0 - levanter.tracker.tqdm - INFO - Progress on:train {x}it/10.0kit "
            f"rate:2.0it/s remaining:1:22:00 elapsed:{since(x)} postfix:loss={loss(x):.3g}\n"
        ),
        "steps step_seconds loss",
    ),
    "TinyLlama": Form(
        lambda x: (
            f"iter {x * 4} step {x}: loss {loss(x):.4f}, iter time: 125.00ms (optimizer.step) "
            "remaining time: 12.34 hours (0.51 days). \n"
        ),
        "steps loss",
        every=1,
    ),
    "llama-recipes": Form(
        lambda x: bar(f"Training Epoch: 1/3, step {x}/1000 completed (loss: {loss(x)})", x + 1, ""),
        "steps loss",
        every=1,
        first=0,
    ),
    "diffusers": Form(
        lambda x: bar("Steps", x, f", lr=1e-5, step_loss={loss(x):.4g}"),
        "steps step_seconds loss",
        every=1,
        count=120,
    ),
    "NeMo's bar": Form(
        lambda x: bar(
            "Epoch 0",
            x,
            f", reduced_train_loss={loss(x):.3f}, global_step={x - 1}.0, "
            "train_step_timing in s=0.500",
        ),
        "steps step_seconds loss",
        every=1,
        count=120,
    ),
    "TRL's GRPO": Form(
        lambda x: (
            f"{{'loss': '{loss(x):.4f}', 'grad_norm': '1.5', 'learning_rate': '9e-06', "
            f"'num_tokens': '{x * 32768}', 'step_time': '0.5', 'epoch': '{x / 100}'}}\n"
        ),
        "loss",
        every=1,
    ),
    "OpenRLHF": Form(
        lambda x: (
            f"\x1b[36m(PPORayActorGroup pid=123)\x1b[0m {clock(x)} INFO Global step {x}: "
            f"{{'policy_loss': {loss(x)}, 'reward': 0.5, 'actor_lr': 5e-07}}\n"
        ),
        "steps step_seconds loss",
        every=1,
        count=200,
    ),
    "XGBoost": Form(lambda x: f"[{x}]\ttrain-rmse:{1 / x:.5f}\teval-rmse:{2 / x:.5f}\n", every=1),
    "LightGBM": Form(
        lambda x: f"[LightGBM] [Info] {x * SECONDS:.6f} seconds elapsed, finished iteration {x}\n",
        every=1,
    ),
    "a web server": Form(
        lambda x: f"{clock(x)} INFO  GET /api/v1/step/{x + 999} 200 12.3 ms\n", every=1
    ),
    "LLaMA-Factory": Form(
        lambda x: (
            f'{{"current_steps": {x}, "total_steps": 1000, "loss": {loss(x):.4f}, "lr": 5e-05, '
            f'"epoch": 0.1, "percentage": 1.0, "elapsed_time": "{since(x)}", "remaining_time": '
            f'"0:12:00", "throughput": {TOKENS:.2f}, "total_tokens": {x * 32768}}}\n'
        ),
        "steps step_seconds loss",
    ),
    "torchtune": Form(
        lambda x: (
            f"Step {x} | loss:{loss(x)} lr:2e-05 tokens_per_second_per_gpu:{EACH} "
            "peak_memory_active:12.3 peak_memory_alloc:12.1 \n"
        ),
        "steps tokens_per_second loss",
        every=1,
    ),
    "T5X": Form(
        lambda x: (
            f"I0306 {clock(x, '%H:%M:%S')}.1 140 utils.py:1] (train) step {x} metrics: {{'loss': "
            f"{loss(x)}, 'timing/seconds_per_step': 0.5, 'timing/steps_per_second': 2.0, "
            f"'timing/seqs_per_second': {SAMPLES}}}\n"
        ),
        "steps step_seconds samples_per_second loss",
        every=100,
    ),
    "Composer": Form(
        lambda x: (
            f"[batch={x}/4800]:\n\t Train time/batch: {x - 1}\n\t Train time/sample: {x * BATCH}\n"
            f"\t Train loss/train/total: {loss(x):.4f}\n\t Train throughput/batches_per_sec: 2.0\n"
            f"\t Train throughput/samples_per_sec: {SAMPLES}\n\t Train throughput/device/"
            f"tokens_per_sec: {EACH}\n\t Train time/train: 0.0123\n"
        ),
        "steps step_seconds samples_per_second tokens_per_second loss",
        every=1,
    ),
    "NeMo-RL": Form(
        lambda x: (
            f"======================== Step {x}/1000 ========================\n  \u2022 Loss: "
            f"{loss(x):.4f}\n  \u2022 Total step time: 0.50s\n  \u2022 generation: 0.30s (60%)\n"
        ),
        "steps step_seconds loss",
        every=1,
    ),
    "DiT": Form(
        lambda x: (
            f"[\x1b[34m{clock(x)}\x1b[0m] (step={x:07d}) Train Loss: {loss(x):.4f}, "
            "Train Steps/Sec: 2.00\n"
        ),
        "steps step_seconds loss",
        every=100,
    ),
    "PaddleNLP": Form(
        lambda x: (
            f"[{clock(x)},748] [    INFO] - loss: {loss(x):.8f}, learning_rate: 2e-06, "
            f"global_step: {x}, max_memory_reserved: 7.75, interval_runtime: 5.0, "
            f"interval_samples_per_second: {SAMPLES}, interval_tokens_per_second_per_device: "
            f"{EACH}, interval_steps_per_second: 2.0, progress_or_epoch: 0.0\n"
        ),
        "steps step_seconds samples_per_second tokens_per_second loss",
    ),
    "MindFormers": Form(
        lambda x: (
            f"{{ step:[{x:5}/   1000], loss: {loss(x):6.6f}, per_step_time:    500ms, "
            "load_balancing_loss:   1.093977, lr: 1.000000e-05, throughput:   1.36T }\n"
        ),
        "steps step_seconds loss",
        every=1,
    ),
    "MindSpore": Form(
        lambda x: (
            f"epoch: {(x - 1) // 100 + 1} step: {(x - 1) % 100 + 1}, loss is {loss(x)}\n"
            + "Train epoch time: 50000.000 ms, per step time: 500.000 ms\n" * (x % 100 == 0)
        ),
        "steps loss",
        every=1,
        count=400,
    ),
    "ms-swift": Form(
        lambda x: (
            f"{{'loss': {loss(x):.8f}, 'memory(GiB)': 2.44, 'train_speed(iter/s)': 2.0, 'epoch': "
            f"{x / 1000:.2f}, 'global_step/max_steps': '{x}/9060', 'percentage': '0.01%', "
            f"'elapsed_time': '{x // 120}m {x // 2 % 60}s', 'remaining_time': '9h 30m 16s'}}\n"
        ),
        "steps step_seconds loss",
    ),
    "InternEvo": Form(
        lambda x: (
            f"{clock(x)},802\tINFO train.py:323 in record -- tflops=63.27,step={x},loss={loss(x)},"
            f"tgs (tokens/gpu/second)={EACH},lr=4e-07,micro_num=4,num_consumed_tokens=131072,"
            "largest_length=2048,largest_batch=5,smallest_batch=4,fwd_bwd_time=3.7\n"
        ),
        "steps step_seconds loss",
        every=1,
        count=200,
    ),
    "HiFi-GAN": Form(
        lambda x: (
            f"Steps : {x}, Gen Loss Total : {loss(x):4.3f}, Mel-Spec. Error : 0.9, s/b : 0.500\n"
        ),
        "steps step_seconds",
        every=5,
    ),
    "StyleGAN": Form(
        lambda x: (
            f"tick {x:<5d} kimg {x * 4:<8.1f} time {x // 120}m {x // 2 % 60:02}s      sec/tick 0.5 "
            "    sec/kimg 12.5    maintenance 0.1    cpumem 5.12   gpumem 12.11\n"
        ),
        every=1,
    ),
    "Flair": Form(
        lambda x: (
            f"{clock(x)},123 epoch {(x - 1) // 200 + 1} - iter {(x - 1) % 200 + 1}/200 - loss "
            f"{loss(x):.8f} - time (sec): {((x - 1) % 200 + 1) * SECONDS:.2f} - samples/sec: "
            f"{SAMPLES:.2f} - lr: 0.1\n"
        ),
        "steps step_seconds samples_per_second loss",
    ),
    "TensorFlow's controller": Form(
        lambda x: (
            f"I0306 {clock(x, '%H:%M:%S')}.1 140 controller.py:457] train | step: {x:6d} | "
            f"steps/sec:    2.0 | output: \n    {{'learning_rate': 0.1,\n     'training_loss': "
            f"{loss(x)}}}\n"
        ),
        "steps step_seconds loss",
        every=100,
    ),
    "StarGAN": Form(
        lambda x: (
            f"Elapsed [{since(x)}], Iteration [{x}/200000], D/loss_real: 9.1, D/loss_fake: 0.1\n"
        ),
        "steps step_seconds",
    ),
    "BasicSR": Form(
        lambda x: (
            f"{clock(x)},123 INFO: [train_..][epoch:  0, iter:{x:8,d}, lr:(2.000e-04,)] [eta: 1 "
            f"day, 2:00:00, time (data): 0.500 (0.001)] l_pix: {loss(x):.4e} \n"
        ),
        every=100,
    ),
    "kohya": Form(
        lambda x: bar("steps", x, f", avr_loss={loss(x):.4f}"),
        "steps step_seconds loss",
        every=1,
        count=120,
    ),
    "a bar without a loss": Form(
        lambda x: bar("steps", x, f", psnr={x / 10}"),
        "steps step_seconds",
        every=1,
        count=125,
    ),
    "AllenNLP": Form(
        lambda x: bar(f"batch_loss: 99.5, loss: {loss(x):.4f} ||", x, ""),
        "steps step_seconds loss",
        every=1,
        count=120,
    ),
    "nanochat": Form(
        lambda x: (
            f"step {x:05d}/21400 ({x / 214:.2f}%) | loss: {loss(x):.6f} | lrm: 1.00 | dt: 500.00ms"
            f" | tok/sec: {int(TOKENS):,} | mfu: 48.20 | total time: {x / 120:.2f}m\n"
        ),
        "steps step_seconds tokens_per_second loss",
        every=1,
    ),
    "minGPT": Form(
        lambda x: f"iter_dt 500.00ms; iter {x}: train loss {loss(x):.5f}\n",
        "steps step_seconds loss",
    ),
    "DeePMD": Form(
        lambda x: f"DEEPMD INFO    batch {x:7d} training time 50.00 s, testing time 0.01 s\n",
        every=100,
    ),
    "Tacotron 2": Form(
        lambda x: f"Train loss {x} {loss(x):.6f} Grad Norm 1.234567 0.50s/it\n",
        "steps step_seconds loss",
        every=1,
    ),
    "WeNet": Form(
        lambda x: (
            f"{clock(x)},123 DEBUG TRAIN Batch 0/{x} loss {loss(x):.6f} loss_att 1.2 lr 1e-05\n"
        ),
        "steps step_seconds loss",
        every=100,
    ),
    "FunASR": Form(
        lambda x: (
            f"[{clock(x)},123][root][INFO] - train, rank: 0, epoch: 0/50, step_in_slice: {x}/1000,"
            f" step_in_epoch: {x}, total step: {x}, (loss_avg_rank: {loss(x):.3f}), (lr: 1.0e-05)"
            ", {'data_load': '0.001', 'forward_time': '0.2', 'total_time': '0.500'}\n"
        ),
        every=50,
    ),
    "MXNet": Form(
        lambda x: (
            f"INFO:root:Epoch[0] Batch [{x - 20}-{x}]\tSpeed: {SAMPLES:.2f} samples/sec\tacc=0.1\n"
        ),
        every=20,
    ),
    "detectron2": Form(
        lambda x: (
            f"[03/06 12:00:00 d2.utils.events]:  eta: 0:12:34  iter: {x}  total_loss: "
            f"{loss(x):.3f}  loss_cls: 1.2  time: 0.5000  last_time: 0.7  data_time: 0.0123  "
            "last_data_time: 0.01  lr: 0.0001  max_mem: 12345M\n"
        ),
        "steps step_seconds loss",
        every=20,
    ),
    "YOLO": Form(
        lambda x: bar(
            f"      1/100      7.12G      {loss(x):.3f}      1.4         23      640", x, ""
        ),
        every=1,
        count=120,
    ),
    "MMEngine": Form(
        lambda x: (
            f"{clock(x)} - mmengine - INFO - Epoch(train)  [{(x - 1) // 200 + 1}]"
            f"[{(x - 1) % 200 + 1:>3}/200]  lr: 1.0000e-04  eta: 1:00:00  time: 0.5000  "
            f"data_time: 0.0101  memory: 9876  loss: {loss(x):.4f}\n"
        ),
        "steps step_seconds loss",
    ),
    "DETR": Form(
        lambda x: (
            f"Epoch: [0]  [{x:>4}/7392]  eta: 1:02:03  lr: 0.000100  loss: {loss(x):.4f} "
            f"({loss(x) + 1:.4f})  loss_ce: 1.1 (1.2)  time: 0.5000  data: 0.01  max mem: 7890\n"
        ),
        "steps step_seconds loss",
    ),
    "rsl_rl": Form(
        lambda x: (
            f"           \x1b[1m Learning iteration {x}/1500 \x1b[0m\n\n             Computation: "
            "65536 steps/s (collection: 0.300s, learning 0.200s)\n          Mean reward: 1.23\n"
            f"{'-' * 80}\n             Total timesteps: {x * 32768}\n              Iteration time: "
            f"0.50s\n                  Total time: {x * SECONDS:.2f}s\n                  ETA: 7s\n"
        ),
        "steps step_seconds",
        every=1,
    ),
    "Stable-Baselines3": Form(
        lambda x: (
            "| time/                  |             |\n|    fps                 | 512         |\n"
            f"|    iterations          | {x:<11} |\n|    total_timesteps     | {x * 2048:<11} |\n"
            "| train/                 |             |\n|    loss                | 0.5         |\n"
        ),
    ),
    "Chainer": Form(
        lambda x: (
            "epoch       iteration   main/loss   elapsed_time\n" * (x == 10)
            + f"{1:<10}  {x:<10}  {loss(x):<10.5g}  {x * SECONDS:<10.6g}\n"
        ),
        "steps step_seconds loss",
    ),
    "Alpaca-LoRA": Form(
        lambda x: f"{{'loss': {loss(x):.4f}, 'learning_rate': 2e-05, 'epoch': {x / 100}}}\n",
        "loss",
    ),
    "LeRobot": Form(
        lambda x: (
            f"INFO {clock(x)} train.py:351 step:{short(x)} smpl:{short(x * 32)} ep:{short(x / 10)}"
            f" epch:0.01 loss:{loss(x):.3f} grdn:1.2 lr:1.0e-05 updt_s:0.490 data_s:0.010\n"
        ),
        "loss",
        every=200,
    ),
    "Modulus": Form(
        lambda x: (
            f"[12:00:00] - [step: {x:10d}] loss: {loss(x):10.3e}, time/iteration:  5.000e+02 ms\n"
        ),
        "steps step_seconds loss",
        every=100,
    ),
    "steps of an epoch": Form(
        lambda x: f"step {(x - 1) % 200 + 1}/200 loss {loss(x):.4f} step_time 0.5\n",
        "step_seconds loss",
    ),
    "a line at the end of each epoch": Form(
        lambda x: f"Epoch {x // 50}: step 50 loss {loss(x):.4f} step_time 0.5\n",
        "steps step_seconds loss",
        every=50,
    ),
    "an epoch above": Form(
        lambda x: (
            (f"Epoch {x // 200 + 1}/3\n" if x % 200 == 10 else "")
            + f"  step {(x - 1) % 200 + 1}/200: loss={loss(x):.4f}, 2.00 it/s\n"
        ),
        "steps step_seconds loss",
    ),
    "a summary at the end": Form(
        lambda x: (
            f"step {x} loss {loss(x):.4f} step_time 0.5\n"
            + ("wandb:   train/loss 0.123\nwandb:   train/step 999\n" if x == 600 else "")
        ),
        "steps step_seconds loss",
    ),
    "nested JSON": Form(
        lambda x: f'{{"step": {x}, "metrics": {{"loss": {loss(x)}, "time": {{"data": 0.01}}}}}}\n',
        "steps loss",
    ),
    "a CSV table": Form(
        lambda x: (
            ("step,loss,step_time_s,tok/s\n" if x == 10 else "")
            + f"{x},{loss(x):.4f},0.5,{TOKENS:.0f}\n"
        ),
        "steps step_seconds tokens_per_second loss",
    ),
    "an aligned table": Form(
        lambda x: (
            ("   step    loss   sec/it      tok/s\n" if x % 200 == 10 else "")
            + f"{x:7d} {loss(x):7.4f} {0.5:8.3f} {TOKENS:10,.0f}\n"
        ),
        "steps step_seconds tokens_per_second loss",
    ),
    "a table with bars": Form(
        lambda x: (
            ("| Step |  Train Loss | Val Loss | ms/step |\n|------|------|-----|-----|\n")
            * (x == 10)
            + f"| {x:4d} | {loss(x):11.4f} |      nan |   500.0 |\n"
        ),
        "steps step_seconds loss",
    ),
    "minutes": Form(
        lambda x: f"step {x} | loss {loss(x):.4f} | elapsed {x * SECONDS / 60:.4f} min\n",
        "steps step_seconds loss",
    ),
    "a time since the start": Form(
        lambda x: f"step {x} loss {loss(x):.4f} time {x * SECONDS:.3f}\n",
        "steps step_seconds loss",
    ),
    "a time of ten steps": Form(
        lambda x: f"step {x} loss {loss(x):.4f} time {10 * SECONDS * (1 + x % 3 / 100):.3f}\n",
        "steps loss",
    ),
    "a time of ten steps, with a clock": Form(
        lambda x: f"{clock(x)},000 step {x} loss {loss(x):.4f} time {5 * (1 + x % 3 / 100):.3f}\n",
        "steps step_seconds loss",
    ),
    "a validation in between": Form(
        lambda x: (
            f"step {x} loss {loss(x):.4f} step_time 0.5s\n"
            f"eval step {x // 10} loss {loss(x) + 2:.4f} step_time 0.1s\n"
            f"step {x} eval_loss {loss(x) + 2:.3f} eval_time 12.3s eval_samples_per_second 999\n"
        ),
        "steps step_seconds loss",
    ),
    "checkpoints in between": Form(
        lambda x: (
            f"step {x} loss {loss(x):.4f} step_time 0.5s\nsaved checkpoint at step {x} in 12.3 s\n"
            f"step {x}: save time 12.3s\n"
        ),
        "steps step_seconds loss",
    ),
    "ranks that say who they are": Form(
        lambda x: "".join(
            f"[rank {rank}] step {x} loss {loss(x) + rank / 100:.4f} step_time 0.5s\n"
            for rank in range(4)
        ),
        "steps step_seconds loss",
    ),
}


def wrong_numbers(form: Form) -> tuple[list[str], set[str]]:
    """What the report says wrongly of a log in this form, and all that it says."""
    first = form.every if form.first is None else form.first
    steps = [first + number * form.every for number in range(form.count)]
    blocks = ["".join(map(form.line, steps)).encode()]
    log = read_log(blocks)
    log = log if log.format else with_unnamed_steps(log, lambda: blocks)
    found = run_data(make_run(log, Job(name="", gpus=GPUS, ranks=GPUS, nodes=1)))
    truth = {**TRUTH, "steps": form.steps or steps[-1]}
    shown = {quantity for quantity in truth if found[quantity] is not None}
    # A bar shows whole seconds, and counts from 0 or 1.
    wrong = [
        f"{quantity}: {found[quantity]}, and {truth[quantity]} is right"
        for quantity in shown
        if abs(found[quantity] - truth[quantity])
        > (1.01 if quantity == "steps" else 0.04 * truth[quantity])
    ]
    if losses := found["series"].get("loss"):
        shown.add("loss")
        if losses[-1][1] != pytest.approx(loss(steps[-1]), rel=0.02, abs=0.02):
            wrong.append(f"loss: {losses[-1][1]}, and {loss(steps[-1])} is right")
    return wrong, shown


@pytest.mark.parametrize("name", FORMS)
def test_what_is_reported_is_right_or_unknown(name: str) -> None:
    wrong, shown = wrong_numbers(FORMS[name])
    assert not wrong
    assert shown == set(FORMS[name].shown.split())
