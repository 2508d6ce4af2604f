#!/usr/bin/env python3
"""What a real card says of guestscope's account of it, in one go: about seven minutes, as root.

    measure.py --guestscope PATH [--python PATH] [--library PATH]
    measure.py --guestscope PATH --stub libcuda_stub.so --nvml libnvidia_ml_stub.so --cupti libcupti_stub.so

Prints what it found first, then a table: what must hold, what was measured, and whether it does. Exit code 1 if
something does not hold, 2 if it cannot begin. It needs PyTorch with CUDA in that Python, and writes to a
temporary folder alone.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")
#: Longest time of one program: imports of PyTorch from a cold disk included, s.
PATIENCE = 180


class Rows:
    def __init__(self):
        self.rows = []

    def add(self, what, must, measured, holds):
        self.rows.append((what, must, measured, "yes" if holds else "NO"))
        print(f"{what}: {measured} ({'holds' if holds else 'does NOT hold'})", file=sys.stderr, flush=True)

    def print(self):
        head = ("what", "must hold", "measured", "holds")
        widths = [max(len(row[at]) for row in [head, *self.rows]) for at in range(4)]
        for row in [head, *self.rows]:
            print("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip())

    def hold(self):
        return all(row[3] == "yes" for row in self.rows)


class Machine:
    """Starts the program, alone or under guestscope."""

    def __init__(self, asked, folder):
        self.asked, self.folder = asked, folder
        # Requests of each run.
        self.requests = 40 if asked.quick else 100
        self.environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        if asked.library:
            self.environment["GUESTSCOPE_LIBRARY"] = asked.library
        if asked.stub:
            self.environment.update(EVIDENCE_STUB=asked.stub, STUB_CUDA=asked.stub, GUESTSCOPE_NVML=asked.nvml)
        if asked.cupti:
            self.environment["GUESTSCOPE_CUPTI"] = asked.cupti
        marker = os.path.join(os.path.dirname(PROGRAM), "..", "..", "marker", "python")
        paths = [os.path.normpath(marker), os.environ.get("PYTHONPATH", "")]
        self.environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)

    def command(self, words):
        return [self.asked.python, PROGRAM, words[0], self.log(), *map(str, words[1:])]

    def log(self):
        return os.path.join(self.folder, "log.json")

    def logged(self):
        with open(self.log()) as file:
            return json.load(file)

    def alone(self, *words):
        subprocess.run(self.command(words), env=self.environment, check=True, timeout=PATIENCE)
        return self.logged()

    def observed(self, *words, card="", windows=None):
        """The summary, and what the program logged. `card`: how the stub of NVML behaves."""
        environment = dict(self.environment)
        if self.asked.stub and card:
            environment["GUESTSCOPE_NVML_STUB"] = card
        runs = os.path.join(self.folder, "runs")
        agent = [self.asked.guestscope, "run", "--json", "--output", runs]
        agent += ["--gpu-trace", windows, "--"] if windows else ["--"]
        run = subprocess.run(
            agent + self.command(words),
            env=environment,
            check=True,
            timeout=PATIENCE,
            stdout=subprocess.PIPE,
        )
        return json.loads(run.stdout), self.logged()

    def neighbour(self):
        words = [self.asked.python, PROGRAM, "neighbour", os.path.join(self.folder, "other.json")]
        return subprocess.Popen(words, env=self.environment)


def group(summary):
    return next(group for group in summary["groups"] if group["name"] == "serve")


def phase(summary, name):
    return next(row for row in group(summary)["phases"] if row["path"] == [name])


def waiting(rows, machine, name, *how):
    """The phase that waits is all GPU, and as long as the program says."""
    summary, logged = machine.observed("serve", 128, machine.requests, *how)
    row = phase(summary, "sync")
    total_ns = row["duration"]["sum_ns"]
    gpu_ns = row["time"]["gpu_ns"] + row["overlay"]["cpu.gpu_ns"]
    share = gpu_ns / total_ns
    rows.add(f"batch 128, {name}: phase sync", "gpu + cpu.gpu >= 95 %", f"{share:.1%}", share >= 0.95)
    off = total_ns / logged["sync_ns"] - 1
    rows.add(
        f"batch 128, {name}: length of sync", "program's clock within 2 %", f"{off:+.2%}", abs(off) <= 0.02
    )
    print(
        f"  device by its events {logged['device_ns'] / logged['requests'] / 1e6:.2f} ms a request, "
        f"gpu {row['time']['gpu_ns'] / logged['requests'] / 1e6:.2f} ms, "
        f"cpu.gpu {row['overlay']['cpu.gpu_ns'] / logged['requests'] / 1e6:.2f} ms in sync",
        file=sys.stderr,
    )


def launching(rows, machine):
    # For 3 s: how busy a card is, is said from ten readings on, five of them a second.
    summary, _ = machine.observed("serve", 1, 600, card="idle")
    found = group(summary).get("gpu_waits_for") or {}
    text = found.get("text", "nothing")
    rows.add("batch 1", "launch-bound is said", text[:60], found.get("by") == "launch")


def sharing(rows, machine):
    alone, _ = machine.observed("serve", 128, machine.requests)
    told = [one["text"] for one in group(alone).get("limits", []) if one["kind"] == "gpu.shared"]
    rows.add("one process", "no other is named", told[0][:60] if told else "none", not told)
    other = machine.neighbour()
    try:
        # It says by a file that it computes.
        end = time.monotonic() + PATIENCE
        while not os.path.exists(os.path.join(machine.folder, "other.json")) and time.monotonic() < end:
            time.sleep(0.1)
        summary, _ = machine.observed("serve", 128, machine.requests, card="shared")
    finally:
        other.kill()
        other.wait()
    pids = {other.pid} | ({1} if machine.asked.stub else set())
    told = [one for one in group(summary).get("limits", []) if one["kind"] == "gpu.shared"]
    is_named = bool(told) and told[0]["pid"] in pids
    rows.add("two processes", "the other is named", told[0]["text"][:60] if told else "none", is_named)


def cost_of_calls(rows, machine, rounds, calls):
    each = []
    for _ in range(rounds):
        without = machine.alone("calls", calls)
        _, within = machine.observed("calls", calls)
        each.append((within["ns"] - without["ns"]) / within["calls"] / 1e3)
    cost = statistics.median(each)
    rows.add("a synchronising call", "costs <= 2.5 us more", f"{cost:.2f} us", cost <= 2.5)


def recording(rows, machine):
    """The kernels of a phase are as long as CUDA's events say."""
    summary, logged = machine.observed("serve", 128, machine.requests, windows="always")
    told = (summary.get("gpu_work") or {}).get("phases", [])
    row = next((row for row in told if row["name"] == "inference" and row["count"] > 0), None)
    must = "device's events within 2 %"
    if row is None:
        why = ((summary["gpu"].get("trace") or {}).get("troubles") or ["nothing was recorded"])[0]
        return rows.add("batch 128, recorded: kernels", must, why[:60], False)
    off = row["kernels_ns"] / row["count"] / (logged["device_ns"] / logged["requests"]) - 1
    rows.add("batch 128, recorded: kernels", must, f"{off:+.2%}", abs(off) <= 0.02)


def cost_of_launches(rows, machine, rounds, seconds):
    """A program that launches all the time: alone, followed, and recorded."""
    ways = ((None, 0.99, ""), ("200ms/10s", 0.98, ", 200ms/10s"), ("always", 0, ", always recorded"))
    ratios = {windows: [] for windows, _, _ in ways}
    for _ in range(rounds):
        without = machine.alone("decode", seconds)
        for windows, all_of in ratios.items():
            _, within = machine.observed("decode", seconds, windows=windows)
            all_of.append(within["tokens_per_s"] / without["tokens_per_s"])
    for windows, least, name in ways:
        ratio = statistics.median(ratios[windows])
        must = f">= {least} of its tokens/s" if least else "is printed"
        rows.add(f"a decoder of 300 kernels a token{name}", must, f"{ratio:.3f}", ratio >= least)


def card():
    query = "name,driver_version,memory.total,clocks.max.sm,mig.mode.current"
    words = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(words, check=True, timeout=60, stdout=subprocess.PIPE).stdout.decode().strip()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(refusal(f"nvidia-smi: {error}", "run it where there is an NVIDIA card, or name --stub"))


def torch(python):
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
    run = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
    text = run.stdout.decode().strip()
    if run.returncode or not text.endswith("True"):
        last = run.stderr.decode().strip().splitlines()[-1:] or [text]
        sys.exit(refusal(f"{python}: {last[0]}", "name a Python that has PyTorch with CUDA by --python"))
    return text


def refusal(what, hint):
    print(f"error: {what}\nhint: {hint}", file=sys.stderr)
    return 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guestscope", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--library", help="libguestscope.so, if it is not where the marker looks for it")
    parser.add_argument("--stub")
    parser.add_argument("--nvml")
    parser.add_argument("--cupti", help="libcupti.so, if the loader does not find it")
    parser.add_argument("--quick", action="store_true", help="fewer requests, and costs once and for a moment")
    return parser.parse_args()


def main():
    asked = arguments()
    if os.geteuid() != 0:
        return refusal("the user: not root", "observing a program takes root")
    if bool(asked.stub) != bool(asked.nvml):
        return refusal("--stub, --nvml: one without the other", "name both stubs, or none")
    what = "the stub" if asked.stub else f"{card()}; PyTorch {torch(asked.python)}"
    version = subprocess.run([asked.guestscope, "--version"], check=True, stdout=subprocess.PIPE)
    print(
        f"{time.strftime('%Y-%m-%d')}  {what}\nLinux {platform.release()}, {os.cpu_count()} CPUs, "
        f"{version.stdout.decode().strip()}\n",
        flush=True,
    )
    rows = Rows()
    with tempfile.TemporaryDirectory(prefix="guestscope-evidence-") as folder:
        machine = Machine(asked, folder)
        waiting(rows, machine, "spinning")
        waiting(rows, machine, "sleeping", "blocking")
        launching(rows, machine)
        sharing(rows, machine)
        recording(rows, machine)
        cost_of_calls(rows, machine, *((1, 1_000) if asked.quick else (3, 100_000)))
        cost_of_launches(rows, machine, *((1, 1) if asked.quick else (3, 5)))
    rows.print()
    return 0 if rows.hold() else 1


if __name__ == "__main__":
    sys.exit(main())
