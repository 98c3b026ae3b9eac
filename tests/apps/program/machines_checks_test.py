"""Several machines: what they compare, levelling, a full disk, links that are down between two of them."""

import glob
import gzip
import os
import shutil
import subprocess

import support
from hosts import ip
from machines_test import SETS, OnHosts
from run_files import last_checkpoint, left_over, steps_of, tensor_bytes

# In front of a command: an environment with which LibTorch computes as on a CPU without AVX-512.
AVX2 = ["ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2", "MKL_ENABLE_INSTRUCTIONS=AVX2", "MKL_CBWR=AVX2"]


class Checks(OnHosts):
    def command(self, number, *more, steps=5, run="run", sets=()):
        return [support.PROGRAM, *self.train_arguments(run, steps, "cpu:0", [*SETS, *sets]), *self.joined(number, 2),
                *more]

    def assertRefused(self, pattern, *commands, codes=(2, 2)):
        for result in self.finish(self.cluster.start(*commands), codes, timeout=60):
            self.assertSays(pattern, result.err)
        self.assertEqual([], steps_of(self.first_run))

    def in_place_of(self, path, other):
        """In front of a command that sees another file, or folder, there."""
        return ["unshare", "-m", "sh", "-c", f'mount --bind {other} {os.path.realpath(path)} && exec "$@"', "sh"]

    def without_avx512(self):
        """In front of a command, on a host whose CPU has no AVX-512, as far as that can be played."""
        with open("/proc/cpuinfo", encoding="ascii") as file:
            lines = [" ".join(word for word in line.split(" ") if not word.startswith("avx512") and word != "avx_vnni")
                     if line.startswith("flags") else line.rstrip("\n") for line in file]
            file.seek(0)
            if "avx512f" not in file.read():
                self.skipTest("this CPU has no AVX-512")
        with open(f"{self.folder}/cpuinfo", "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        return [*self.in_place_of("/proc/cpuinfo", f"{self.folder}/cpuinfo"), "env", *AVX2]

    def test_cpus_that_differ_are_refused_by_name_or_levelled(self):
        weaker = self.without_avx512()
        self.assertRefused("do not agree on 'CPU': host0 has .*avx512f.*, host1 has .*avx2.*--level",
                           self.command(0), [*weaker, *self.command(1)])
        alone = self.run_path("alone")
        weak = [*weaker, support.PROGRAM, *self.train_arguments(alone, 20, "cpu:0", SETS)]
        self.assertEqual(0, subprocess.run(weak, cwd=self.folder, capture_output=True).returncode)
        self.finish(self.cluster.start(self.command(0, steps=20), [*weaker, *self.command(1, "--level", steps=20)]),
                    [0, 0])
        self.assertSameTraining(alone, self.first_run, "that of one device without AVX-512")
        self.assertNotEqual(tensor_bytes(last_checkpoint(self.alone(20))), tensor_bytes(last_checkpoint(alone)),
                            "AVX-512 makes no difference: this test has shown nothing")
        shutil.rmtree(self.first_run)
        half = ["--level", "--set", "precision=bfloat16"]
        self.assertRefused("--level: CPUs with and without AVX-512",
                           self.command(0, *half), [*weaker, *self.command(1, *half)])

    def test_libraries_that_compute_other_bits_are_refused_though_the_cpus_are_alike(self):
        self.assertRefused("do not agree on 'what a sample of operators computes'",
                           self.command(0), ["env", "ONEDNN_MAX_CPU_ISA=AVX2", *self.command(1)])

    def test_another_libtorch_and_another_version_are_refused_by_name(self):
        # The same function as LibTorch's, before it.
        source, other = f"{self.folder}/other.cpp", f"{self.folder}/other.so"
        with open(source, "w", encoding="ascii") as file:
            file.write('#include <string>\nnamespace at { std::string show_config() { return "another build"; } }\n')
        subprocess.run(["g++", "-shared", "-fPIC", source, "-o", other], check=True)
        self.assertRefused("do not agree on 'how LibTorch was built'",
                           self.command(0), ["env", f"LD_PRELOAD={other}", *self.command(1)])
        # A copy of the program in which its version is another.
        with open(support.PROGRAM, "rb") as file:
            program = file.read()
        begin = program.index(b"lockstep, version ") + len(b"lockstep, version ")
        newer = f"{self.folder}/newer"
        with open(newer, "wb") as file:
            file.write(program[:begin] + b"9" + program[begin + 1:])
        os.chmod(newer, 0o755)
        path = f"LD_LIBRARY_PATH={os.path.dirname(os.path.dirname(support.PROGRAM))}"
        self.assertRefused(r"'the version of Lockstep': host0 has 0\.\d+\.\d+, host1 has 9\.",
                           self.command(0), ["env", path, newer, *self.command(1)[1:]])

    def test_data_of_the_same_names_and_sizes_is_compared_by_content(self):
        other = shutil.copytree(self.data, f"{self.folder}/other")
        name = "train-labels-idx1-ubyte.gz"
        with open(f"{other}/{name}", "r+b") as file:
            file.seek(-9, os.SEEK_END)
            byte = file.read(1)
            file.seek(-9, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.assertRefused(f"host0 and host1 have different data, first at '{name}, .* bytes, fingerprint",
                           self.command(0), [*self.in_place_of(self.data, other), *self.command(1)])

    def test_a_full_disk_on_the_first_host_stops_nobody_and_the_next_start_goes_on(self):
        host = self.cluster.hosts[0]
        disk = f"{host.folder}/disk"
        os.makedirs(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest(f"no right to mount a small disk: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=False)
        sets = ["train.report_every=5", "save.every_steps=5"]

        def start(code):
            return self.finish(self.cluster.start(*(
                self.command(number, run="disk/run", steps=40, sets=[*sets, "save.keep_last=100"])
                for number in range(2))), [code, 0])[0]

        full = start(1)
        self.assertIn("No space left on device", full.err)
        self.assertEqual(40, full.events("report")[-1]["step"], "training went on")
        saved = [save["step"] for save in full.events("save") if not save["error"]]
        self.assertTrue(saved and saved[-1] < 40)
        self.assertEqual(saved, steps_of(f"{disk}/run"))
        self.assertEqual([], left_over(f"{disk}/run"))
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        rest = start(0)
        self.assertEqual(saved[-1], rest.events("start")[0]["step"])
        self.assertSameTraining(self.alone(40, sets), f"{disk}/run")

    def test_curves_name_the_host_of_every_device(self):
        self.finish(self.cluster.start(*(self.command(number, steps=10) for number in range(2))), [0, 0])
        [path] = glob.glob(f"{self.first_run}/*tfevents*")
        with open(path, "rb") as file:
            events = file.read()
        for name in (b"loss/host0/cpu:0", b"loss/host1/cpu:0", b"time_backward/host1/cpu:0"):
            self.assertIn(name, events)


class LinksBetweenTwo(OnHosts):
    SETS = ["save.every_steps=20", "train.report_every=2"]

    def test_two_that_do_not_reach_each_other_are_told_and_the_others_go_on(self):
        steps = 200
        processes = self.start((1, 1, 1), steps, self.SETS, ["--silence", "3"])
        processes[0].wait_for("report", 50)
        # Nothing goes from host1 to host2 any more; both still reach the first.
        ip("-n", self.cluster.hosts[1].space, "route", "add", "blackhole", f"{self.cluster.hosts[2].address}/32")
        lost = processes[0].wait_for("machines_lost")
        self.assertEqual(["host2"], lost["lost"])
        first, _, third = self.finish(processes, [0, 0, 4], timeout=60)
        self.assertSays("host[12] and host[12] do not reach each other", third.err)
        self.assertSameTraining(self.alone(steps, self.SETS), self.first_run)


if __name__ == "__main__":
    support.main()
