"""Several machines as OpenMPI's mpirun starts them, over hosts in network namespaces, by gloo and by MPI."""

import glob
import os
import shutil
import signal
import subprocess

import support
from machines_test import LONG, SETS, OnHosts
from run_files import steps_of

# Stands in for ssh: AGENT [-flags] ADDRESS COMMAND, on the host of that address.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
address=$1; shift
case $address in
%sesac
exec ip netns exec "$space" unshare --uts sh -c 'hostname "$0"; exec sh -c "$1"' "$name" "$*"
"""


class ByMpirun(OnHosts):
    def setUp(self):
        super().setUp()
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("there is no mpirun.openmpi: install openmpi-bin")
        self.agent = f"{self.folder}/agent"
        hosts = "".join(f"{host.address}) space={host.space} name={host.name} ;;\n" for host in self.cluster.hosts)
        with open(self.agent, "w", encoding="ascii") as file:
            file.write(AGENT % hosts)
        os.chmod(self.agent, 0o755)

    def mpirun(self, steps, sets=(), more=(), before=()):
        """One process of `lockstep train` on each host; mpirun is on the first."""
        arguments = self.train_arguments("run", steps, "cpu:0", [*SETS, *sets])
        addresses = ",".join(host.address for host in self.cluster.hosts)
        mpirun = ["mpirun.openmpi", "-np", "3", "--host", addresses, "--bind-to", "none",
                  "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
                  "-x", "LOCKSTEP_SECRET"]
        return self.cluster.start([*mpirun, *before, support.PROGRAM, *arguments, *more], OMPI_ALLOW_RUN_AS_ROOT="1",
                                  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LOCKSTEP_SECRET="of the tests")[0]

    def test_the_checkpoints_are_those_of_one_device_by_either_transport(self):
        sets = ["evaluate.every_steps=10", "save.every_steps=10"]
        for transport in ("gloo", "mpi"):
            shutil.rmtree(self.first_run, ignore_errors=True)
            first = self.mpirun(20, sets, ["--transport", transport]).finish()
            self.assertExit(0, first)
            self.assertEqual([f"host{number}/cpu:0" for number in range(3)], first.events("start")[0]["devices"])
            self.assertSameTraining(self.alone(20, sets), self.first_run, transport)

    def test_sigterm_to_the_launcher_saves_once(self):
        for transport in ("gloo", "mpi"):
            shutil.rmtree(self.first_run, ignore_errors=True)
            self.stop(signal.SIGTERM, 1, ["--transport", transport])  # mpirun's own code
            # mpirun drops some of the last output.
            self.assertEqual(2, len(steps_of(self.first_run)), "at the begin, and at the signal")

    def test_sigusr1_to_the_launcher_saves_once_however_long_that_takes_and_ends_with_3(self):
        # Syncing all files of a checkpoint takes longer than mpirun waits after the first process has ended.
        source, slow = f"{self.folder}/slow.c", f"{self.folder}/slow.so"
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <unistd.h>\nint fsync(int handle) { (void)handle; usleep(200000); return 0; }\n")
        subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", source, "-o", slow], check=True)
        stopped = self.stop(signal.SIGUSR1, 3, slow=slow).events("end")[0]
        self.assertEqual("stopped", stopped["ending"])
        self.assertEqual([0, stopped["step"]], steps_of(self.first_run))

    def stop(self, number, code, more=(), slow=None):
        # Few reports: mpirun reads no output while it waits, and whoever prints much stands still.
        launcher = self.mpirun(100000, ["train.report_every=1000"], more,
                               ["env", f"LD_PRELOAD={slow}"] if slow else [])
        launcher.wait_for("save")
        launcher.signal(number)
        first = launcher.finish(60)
        self.assertExit(code, first)
        return first

    def test_a_process_that_is_killed_ends_the_job_by_mpi_and_the_next_start_goes_on(self):
        sets = ["save.every_steps=20", "train.report_every=2"]
        launcher = self.mpirun(LONG, sets, ["--transport", "mpi"])
        launcher.wait_for("report", 50)
        done = subprocess.run(["ip", "netns", "pids", self.cluster.hosts[1].space], capture_output=True, text=True, check=True)
        for pid in done.stdout.split():
            with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                if name.read().strip() == "lockstep":
                    os.kill(int(pid), signal.SIGKILL)
        self.assertNotEqual(0, launcher.finish(60).code)
        self.assertLess(steps_of(self.first_run)[-1], LONG)
        self.assertExit(0, self.mpirun(LONG, sets, ["--transport", "mpi"]).finish())
        self.assertSameTraining(self.alone(LONG, sets), self.first_run)

    def test_what_mpi_cannot_do_is_refused_by_name(self):
        for more in (["--rejoin"], ["--on-machine-failure", "go-on"]):
            refused = self.call("train", "fashion", "--transport", "mpi", *more)
            self.assertExit(2, refused)
            self.assertSays("MPI ends a job that loses a machine", refused.err)
        # Without the module, and not started by mpirun: to MPI each process is alone then.
        [module] = glob.glob(f"{os.path.dirname(os.path.dirname(support.PROGRAM))}/lockstep-mpi-*.so")
        without = ["unshare", "-m", "sh", "-c", f'mount --bind /dev/null {os.path.realpath(module)} && exec "$@"', "sh"]
        for result in self.finish(self.cluster.start(*(
                [*without, support.PROGRAM, *self.train_arguments("run", 5), *self.joined(number, 2), "--transport", "mpi"]
                for number in range(2))), [2, 2], timeout=60):
            self.assertSays("the transport mpi is not there .* build Lockstep with -DLOCKSTEP_MPI=ON", result.err)
        for result in self.finish(self.start((1, 1), 5, more=["--transport", "mpi"]), [2, 2], timeout=60):
            self.assertSays("number 0 of 1, but this is machine [01] of 2: start all by one mpirun", result.err)
        for result in self.finish(self.cluster.start(*(
                [support.PROGRAM, *self.train_arguments("run", 5), *self.joined(number, 2), "--start", "5", *more]
                for number, more in enumerate([[], ["--transport", "mpi"]]))), [4, 2], timeout=60):
            self.assertSays("told of another transport", result.err)


class ByTorchrun(OnHosts):
    def test_the_checkpoints_are_those_of_one_device(self):
        packages = f"{os.path.dirname(support.PROGRAM)}/../../../.deps"
        path = ":".join(f"{packages}/{name}" for name in ("torch", "cuda", "oracles"))
        torchrun = ["python3", "-m", "torch.distributed.run", "--no-python", "--nnodes", "2", "--nproc-per-node", "1",
                    "--master-addr", self.cluster.hosts[0].address, "--master-port", "29400"]
        probe = subprocess.run([*torchrun[:3], "--help"], capture_output=True, env={**os.environ, "PYTHONPATH": path})
        if probe.returncode != 0:
            self.skipTest("Python's torch does not start: scripts/setup --cuda --oracles installs it")
        self.finish(self.cluster.start(*(
            [*torchrun, "--node-rank", str(number), "--", support.PROGRAM, *self.train_arguments("run", 10, "cpu:0", SETS)]
            for number in range(2)), PYTHONPATH=path), [0, 0])
        self.assertSameTraining(self.alone(10), self.first_run)


if __name__ == "__main__":
    support.main()
