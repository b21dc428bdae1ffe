"""What the suites need, fetched into the cache folder; every part does nothing when it is complete."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


INSTALL_LIMIT_S = 1800


@dataclass(frozen=True)
class Layout:
    """Where things are: the project's root and the cache folder."""

    root: Path
    cache: Path

    @property
    def logs(self):
        return self.cache / "logs"

    @property
    def jars(self):
        return self.cache / "jars"

    @property
    def integration(self):
        return self.root / "integration"

    def environment(self):
        """The variables that every suite sees, at installation too."""
        return os.environ | {"HULD_CACHE": str(self.cache), "HULD_JARS": str(self.jars)}


# What a suite needs before its own `install` runs: what several share, or what another suite has installed.
NEEDS = {"kcat": ["debian"], "tools": ["jars"], "java": ["jars"], "cluster": ["jars"], "cluster_python": ["python"],
         "steering": ["python"], "cluster_tools": ["jars"], "cluster_applications": ["applications"]}


def start(pool, layout, suites, kafka):
    """Starts all installs side by side; gives a future by name, whose result is whether it succeeded."""
    shared = {"debian": debian_packages, "jars": kafka_jars}
    futures = {}

    def own(suite):
        has_all = all(futures[need].result() for need in NEEDS.get(suite, []))
        needs_more = (layout.integration / suite / "install").exists()
        return has_all and (not needs_more or logged(layout, suite, own_install(suite)))

    def submit(name):
        if name in futures:
            return
        # What it waits for comes before it, or a small pool would be full of those that wait.
        for need in NEEDS.get(name, []):
            submit(need)
        futures[name] = pool.submit(logged, layout, name, shared[name]) if name in shared else pool.submit(own, name)

    for name in (["jars"] if kafka else []) + suites:
        submit(name)
    return futures


def logged(layout, name, installer):
    began = time.monotonic()
    path = layout.logs / f"install-{name}.log"
    with path.open("w") as log:
        try:
            installer(layout, log)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"# install of {name} failed: {error}; its log ends with", flush=True)
            log.flush()
            print("".join(f"#   {line}\n" for line in path.read_text().splitlines()[-15:]), end="", flush=True)
            return False
    if time.monotonic() - began > 1:
        print(f"# installed: {name} ({time.monotonic() - began:.0f} s)", flush=True)
    return True


def call(log, *command, **options):
    # In a session of its own: a suite's build daemon must not get the terminal's signals or our input. It ends as a whole
    # when it takes too long, or its children would go on.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                               start_new_session=True, **options)
    try:
        code = process.wait(timeout=INSTALL_LIMIT_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if code != 0:
        raise subprocess.CalledProcessError(code, command)


def own_install(suite):
    def installer(layout, log):
        folder = layout.integration / suite
        (layout.cache / suite).mkdir(parents=True, exist_ok=True)
        call(log, str(folder / "install"), cwd=folder, env=layout.environment())

    return installer


def debian_packages(layout, log):
    if shutil.which("kcat"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise OSError("kcat is missing, and only root can install it with apt-get: install the package kcat")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    call(log, "apt-get", "update", env=quiet)
    call(log, "apt-get", "install", "-y", "--no-install-recommends", "kcat", env=quiet)


def kafka_jars(layout, log):
    call(log, str(layout.integration / "harness" / "maven-jars"), str(layout.integration / "pom.xml"),
         str(layout.jars), env=layout.environment())
