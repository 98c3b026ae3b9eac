"""Hosts for tests: network namespaces of this machine, joined by a bridge. Each has a network, a
name and a folder of its own. They are made by a test and taken away with it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import support


class NotAllowed(Exception):
    """This machine does not let us make namespaces; the message says why."""


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotAllowed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Process:
    """A program on a host. What it prints goes to files, so it never waits for a reader."""

    def __init__(self, host, command, **environment):
        self.host = host
        self.out, self.err = (tempfile.NamedTemporaryFile(dir=host.folder) for _ in range(2))
        self.process = subprocess.Popen(
            host.command(command), cwd=host.folder, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
            env={**os.environ, **environment}, start_new_session=True)

    def events(self, kind=None):
        with open(self.out.name, encoding="utf-8") as file:
            lines = [line for line in file.read().split("\n")[:-1] if line]
        found = [json.loads(line) for line in lines]
        return [event for event in found if kind is None or event["event"] == kind]

    def wait_for(self, kind, step=0):
        """An event of that kind, at that step or later."""
        until = time.monotonic() + support.TIMEOUT
        while time.monotonic() < until:
            for event in self.events(kind):
                if event["step"] >= step:
                    return event
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no '{kind}' at step {step}:\n{self.finish()}")

    def signal(self, number):
        """To the program itself: what it was started by has become it."""
        os.kill(self.process.pid, number)

    def finish(self, timeout=support.TIMEOUT):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            code = f"none after {timeout} s; killed with {self.process.wait()}"
        texts = []
        for file in (self.out, self.err):
            with open(file.name, encoding="utf-8", errors="replace") as content:
                texts.append(content.read())
        return support.Result(code, *texts)

    def close(self):
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        self.out.close()
        self.err.close()


class Host:
    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name = f"host{number}"
        self.space = f"{cluster.prefix}-{number}"
        self.link = f"{cluster.prefix}v{number}"
        self.address = f"10.77.{cluster.subnet}.{number + 1}"
        self.folder = f"{cluster.folder}/{self.name}"
        os.makedirs(self.folder)

    def make(self):
        ip("netns", "add", self.space)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        ip("link", "set", self.link, "master", self.cluster.bridge, "up")
        ip("-n", self.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", self.space, "link", "set", device, "up")

    def command(self, command):
        inside = f'hostname {self.name}; exec "$@"'
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", inside, "sh", *command]

    def plug(self, plugged):
        ip("link", "set", self.link, "up" if plugged else "down")

    def slow_down(self, rate):
        """Limits what goes to this host, and what goes from it, each to a rate as `tc` takes it: 50mbit."""
        how = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "200ms"]
        for where in (["qdisc", "add", "dev", self.link], ["-n", self.space, "qdisc", "add", "dev", "eth0"]):
            done = subprocess.run(["tc", *where, *how], capture_output=True, text=True)
            if done.returncode != 0:
                raise NotAllowed(f"tc {' '.join(where)}: {done.stderr.strip()}")


class Hosts:
    """So many hosts, host0 and so on. Raises NotAllowed where there cannot be any."""

    def __init__(self, count, folder):
        if not shutil.which("ip") or not shutil.which("tc"):
            raise NotAllowed("there is no `ip` and `tc`: install iproute2")
        self.prefix = f"lk{os.getpid() % 1000000}"
        self.subnet = os.getpid() % 250
        self.bridge = f"{self.prefix}br"
        self.folder = folder
        self.hosts, self.processes = [], []
        try:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("link", "set", self.bridge, "up")
            for number in range(count):
                self.hosts.append(Host(self, number))
                self.hosts[-1].make()
        except NotAllowed:
            self.close()
            raise

    def start(self, *commands, **environment):
        """One command a host."""
        started = [Process(host, command, **environment) for host, command in zip(self.hosts, commands)]
        self.processes += started
        return started

    def close(self):
        for process in self.processes:
            process.close()
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host.space], capture_output=True)
            subprocess.run(["ip", "link", "del", host.link], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
