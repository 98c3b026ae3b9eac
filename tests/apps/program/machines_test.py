"""Several machines: hosts in network namespaces, one process each, no file system in common."""

import os
import shutil
import signal
import time
import unittest

import hosts
import support
from run_files import checkpoint, last_checkpoint, manifest, steps_of, tensor_bytes
from support import ProgramTest

PORT = 29500
SETS = ["shards=12", "model.dropout=0.4", "optimizer.average=0.95", "optimizer.clip=1", "save.keep_last=2"]
LONG = 200  # steps: seconds enough to do something to the machines


class OnHosts(ProgramTest):
    """Three hosts, and runs on the first of them."""

    def setUp(self):
        super().setUp()
        try:
            self.cluster = hosts.Hosts(3, self.folder)
        except hosts.NotAllowed as why:
            raise unittest.SkipTest(f"no network namespaces here: {why}")
        self.addCleanup(self.cluster.close)
        self.first_run = f"{self.cluster.hosts[0].folder}/run"

    def joined(self, number, count):
        return ["--machines", f"{self.cluster.hosts[0].address}:{PORT}", "--machine", f"{number}/{count}"]

    def start(self, layout, steps, sets=(), more=(), **environment):
        """One process a machine with so many CPU devices each."""
        return self.cluster.start(*(
            [support.PROGRAM, *self.train_arguments("run", steps, f"cpu:0-{devices - 1}", [*SETS, *sets]),
             *self.joined(number, len(layout)), *more]
            for number, devices in enumerate(layout)), **environment)

    def finish(self, processes, codes, timeout=support.TIMEOUT):
        results = [process.finish(timeout) for process in processes]
        for result, code in zip(results, codes):
            self.assertExit(code, result)
        return results

    def alone(self, steps, sets=()):
        """The same training on one device of one machine; once for all tests that ask for it."""
        run = f"{self.class_folder}/alone-{steps}-{len(sets)}"
        if not os.path.exists(run):
            self.assertExit(0, self.train(run, steps, "cpu:0", [*SETS, *sets]))
        return run

    def assertNobodyElseWrites(self):
        for host in self.cluster.hosts[1:]:
            self.assertFalse(os.path.exists(f"{host.folder}/run"), host.name)


class Machines(OnHosts):
    def test_any_layout_has_the_checkpoints_of_one_device_byte_for_byte(self):
        sets = ["evaluate.every_steps=10", "save.every_steps=10"]
        alone = self.alone(20, sets)
        for layout in ((2, 2), (1, 2, 1), (3, 1), (2, 1, 3)):
            shutil.rmtree(self.first_run, ignore_errors=True)
            first, *_ = self.finish(self.start(layout, 20, sets), [0] * len(layout))
            self.assertSameTraining(alone, self.first_run, str(layout))
            self.assertNobodyElseWrites()
            names = [f"host{host}/cpu:{device}" for host, count in enumerate(layout) for device in range(count)]
            self.assertEqual(names, first.events("start")[0]["devices"])

    def test_verify_compares_with_one_device(self):
        flags = ["--set", f"data.path={self.data}", "--set", "data.batch=24", "--set", "shards=12", "--steps", "2"]
        first, second = self.finish(self.cluster.start(*(
            [support.PROGRAM, "verify", "fashion", *flags, "--devices", "cpu:0-1", *self.joined(number, 2)]
            for number in range(2))), [0, 0])
        self.assertSays("1 and 4 devices of 2 machines, 2 steps in 12 shards: equal, bit for bit", first.out)
        self.assertEqual("", second.out)

    def test_a_run_goes_on_from_three_machines_to_one_and_back(self):
        alone = self.alone(30)
        self.finish(self.start((1, 1, 1), 10), [0, 0, 0])
        self.assertExit(0, self.train(self.first_run, 20, "cpu:0-1", SETS))
        self.finish(self.start((2, 1), 30), [0, 0])
        self.assertSameTraining(alone, self.first_run)

    def test_simulated_devices_exchange_across_processes(self):
        def sim(run, devices, more=()):
            # Batches of fewer rows than shards: a machine without rows posts nothing during backward.
            return [*self.train_arguments(run, 8, devices, [*SETS, "train.report_every=4", "data.batch=2"]), *more]

        several = {"LOCKSTEP_SIM": "devices=4"}
        alone = self.run_path("alone")
        self.assertExit(0, self.call(*sim(alone, "sim:0-3"), env={**os.environ, **several}))
        self.finish(self.cluster.start(*(
            [support.PROGRAM, *sim("run", devices, self.joined(number, 3))]
            for number, devices in enumerate(("sim:0", "sim:0-1", "sim:0"))), **several), [0, 0, 0])
        self.assertSameTraining(alone, self.first_run)

    def test_a_signal_to_any_of_them_saves_once_and_ends_all(self):
        for to in (0, 2):
            shutil.rmtree(self.first_run, ignore_errors=True)
            processes = self.start((1, 1, 1), 100000)
            processes[0].wait_for("report", 10)
            processes[to].signal(signal.SIGTERM)
            first, *_ = self.finish(processes, [3, 3, 3], timeout=60)
            self.assertEqual("stopped", first.events("end")[0]["ending"])
            self.assertEqual(first.events("end")[0]["step"], steps_of(self.first_run)[-1])
        self.finish(self.start((1, 1), steps_of(self.first_run)[-1] + 5), [0, 0])

    def test_other_recipes_data_and_secrets_are_refused_by_name(self):
        def refused(pattern, *commands, **environment):
            for result in self.finish(self.cluster.start(*commands, **environment), [2, 2], timeout=90):
                self.assertSays(pattern, result.err)

        def command(number, *sets, data=None):
            arguments = self.train_arguments("run", 5, "cpu:0", [*SETS, *sets])
            return [support.PROGRAM, *arguments, *self.joined(number, 2),
                    *(["--set", f"data.path={data}"] if data else [])]

        refused("host0 and host1 have different recipes.*lr", command(0), command(1, "optimizer.lr=0.5"))
        other = support.make_data(f"{self.folder}/other", train=128)
        wrong = ["unshare", "-m", "sh", "-c", f"mount --bind {other} {os.path.realpath(self.data)} && exec \"$@\"", "sh"]
        refused("host0 and host1 have different data, first at 't(rain|10k)-images", command(0), [*wrong, *command(1)])
        wrong = ["env", "LOCKSTEP_SECRET=another"]
        first, second = (process.finish(90) for process in self.cluster.start(
            [*wrong[:1], "LOCKSTEP_SECRET=one", *command(0), "--start", "5"], [*wrong, *command(1), "--start", "5"]))
        self.assertExit(2, second)
        self.assertSays("secret", second.err)
        self.assertNotEqual(0, first.code)
        self.assertEqual([], steps_of(self.first_run))


class Failures(OnHosts):
    SETS = ["save.every_steps=20", "train.report_every=2"]

    def break_one(self, break_it, more=(), layout=(1, 1, 1), codes=(0, None, 0), timeout=120):
        """Breaks the second host in the middle; what the first printed, and the second's process."""
        processes = self.start(layout, LONG, self.SETS, ["--silence", "3", *more])
        processes[0].wait_for("report", 50)
        begin = time.monotonic()
        break_it(processes[1])
        results = [process.finish(timeout) for number, process in enumerate(processes) if codes[number] is not None]
        for result, code in zip(results, [code for code in codes if code is not None]):
            self.assertExit(code, result)
        return results, processes[1], time.monotonic() - begin

    def assertWentOn(self, results):
        lost = results[0].events("machines_lost")
        self.assertEqual([["host1"]], [event["lost"] for event in lost])
        self.assertEqual(["host0/cpu:0", "host2/cpu:0"], lost[0]["devices"])
        self.assertSameTraining(self.alone(LONG, self.SETS), self.first_run)

    def test_the_others_go_on_when_one_is_killed(self):
        results, *_ = self.break_one(lambda process: process.signal(signal.SIGKILL))
        self.assertWentOn(results)

    def test_with_replay_no_step_is_taken_twice(self):
        results, *_ = self.break_one(lambda process: process.signal(signal.SIGKILL),
                                     ["--on-device-failure", "replay"])
        self.assertWentOn(results)
        lost, = results[0].events("machines_lost")
        self.assertEqual((True, 0), (lost["replayed"], lost["repeated"]))

    def test_the_others_go_on_when_one_is_unplugged_and_that_one_ends(self):
        results, cut_off, _ = self.break_one(lambda process: process.host.plug(False))
        self.assertWentOn(results)
        alone = cut_off.finish(60)
        self.assertExit(4, alone)
        self.assertSays("host0", alone.err)

    def test_the_others_go_on_when_one_is_frozen(self):
        results, frozen, _ = self.break_one(lambda process: process.signal(signal.SIGSTOP))
        self.assertWentOn(results)
        frozen.signal(signal.SIGCONT)
        self.assertExit(4, frozen.finish(60))

    def test_on_machine_failure_stop_ends_all_with_a_code_of_its_own(self):
        results, _, took = self.break_one(lambda process: process.signal(signal.SIGKILL),
                                          ["--on-machine-failure", "stop"], codes=(4, None, 4))
        for result in results:
            self.assertSays("host1", result.err)
        self.assertLess(took, 60)
        newest = last_checkpoint(self.first_run)  # is whole, and the next start goes on from it
        self.assertEqual(manifest(newest)["progress"]["step"], steps_of(self.first_run)[-1])
        self.finish(self.start((1, 1), LONG, self.SETS), [0, 0])
        self.assertSameTraining(self.alone(LONG, self.SETS), self.first_run)

    def test_a_machine_that_comes_back_is_taken_in(self):
        more = ["--silence", "3", "--rejoin"]
        processes = self.start((1, 1, 1), 900, self.SETS, more)
        processes[0].wait_for("report", 50)
        processes[1].signal(signal.SIGKILL)
        processes[0].wait_for("machines_lost")
        host = self.cluster.hosts[1]
        back = hosts.Process(host, [support.PROGRAM, *self.train_arguments("run", 900, "cpu:0", [*SETS, *self.SETS]),
                                    *self.joined(1, 3), *more])
        self.cluster.processes.append(back)
        self.finish([processes[0], processes[2], back], [0, 0, 0])
        devices = [event["devices"] for event in processes[0].events("start")]
        self.assertEqual([["host0/cpu:0", "host1/cpu:0", "host2/cpu:0"]] * 2, devices)
        self.assertSameTraining(self.alone(900, self.SETS), self.first_run)

    def test_a_slow_link_is_no_failure(self):
        try:
            self.cluster.hosts[1].slow_down("2mbit")
        except hosts.NotAllowed as why:
            self.skipTest(f"links cannot be slowed down here: {why}")
        # A checkpoint of seconds goes to the slow host, which is silent for no moment.
        sets = ["model.width=24"]
        self.assertExit(0, self.train(self.first_run, 2, "cpu:0", [*SETS, *sets]))
        begin = time.monotonic()
        first, _ = self.finish(self.start((1, 1), 4, sets, ["--silence", "2"]), [0, 0])
        self.assertGreater(time.monotonic() - begin, 4)
        self.assertEqual([], first.events("machines_lost"))
        self.assertSameTraining(self.alone(4, sets), self.first_run)

    def test_when_the_first_is_lost_the_others_say_so_and_the_next_start_goes_on(self):
        processes = self.start((1, 1), LONG, self.SETS, ["--silence", "3"])
        processes[0].wait_for("report", 50)
        processes[0].signal(signal.SIGKILL)
        other = processes[1].finish(60)
        self.assertExit(4, other)
        self.assertSays("host0", other.err)
        self.finish(self.start((1, 1), LONG, self.SETS), [0, 0])
        self.assertSameTraining(self.alone(LONG, self.SETS), self.first_run)


if __name__ == "__main__":
    support.main()
