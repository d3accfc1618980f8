#!/usr/bin/env python3
"""Generates states of a given size, the same ones each time. Objects are made once, in small, by
poolctl; they are cast in as many copies as are asked for, and imported. Only what a year leaves
behind, ended jobs and old events, is written by SQL: nobody can wait a year for it.

Usage: tests/perf/fleet.py FIXTURE SIZE FOLDER
POOLCTL is the program (default target/release/poolctl, else target/debug/poolctl). FOLDER/state.db
is the state. Its clock stands at FLEET_TIME: later commands need POOLCTL_NOW.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLES = PROJECT / "examples" / "agents"
# When molds are made, and when the fleet that is cast from them is settled.
MOLD_TIME = "2026-03-02T12:00:00Z"
FLEET_TIME = "2026-03-02T12:01:00Z"
# When the claims of a fleet of clusters have expired.
LATER = "2026-03-02T14:00:00Z"
# FLEET_TIME as the state keeps time, in microseconds since 1970.
FLEET_MICROSECONDS = 1_772_452_860_000_000
DAY_MICROSECONDS = 86_400_000_000
POOL_SIZE = 20
# Claims of pools d0 to d9 in a fleet of clusters; they expire an hour after FLEET_TIME.
DUE_CLAIMS = 10
# Events of a `history` that are older than what is kept.
EXPIRED_EVENTS = 1000

FAKE = {"hive.openshift.io/fake-cluster": "true"}


def default_program():
    """The binary that is measured: $POOLCTL, else the release build, else the dev build."""
    if "POOLCTL" in os.environ:
        return Path(os.environ["POOLCTL"]).resolve()
    builds = [PROJECT / "target" / build / "poolctl" for build in ("release", "debug")]
    for build in builds:
        if build.exists():
            return build
    sys.exit(f"there is no {builds[0]} and no {builds[1]}\nnext: cargo build --locked")


class Cost:
    """What a run of a program cost: seconds until it answered and until it ended, and seconds of
    processor time."""

    def __init__(self, answered, ended, processor):
        self.answered = answered
        self.ended = ended
        self.processor = processor

    def least(self, other):
        return Cost(
            min(self.answered, other.answered),
            min(self.ended, other.ended),
            min(self.processor, other.processor),
        )


def measure(command, environment):
    """Runs a program with as little around it as Python can do, and returns what it cost. Ends the
    script if the program fails."""
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_CLOSE, reader),
        (os.POSIX_SPAWN_CLOSE, writer),
    ]
    begun = time.perf_counter()
    child = os.posix_spawn(command[0], command, environment, file_actions=actions)
    os.close(writer)
    first = os.read(reader, 1 << 16)
    answered = time.perf_counter() - begun
    while first and os.read(reader, 1 << 16):
        pass
    _, status, usage = os.wait4(child, 0)
    ended = time.perf_counter() - begun
    os.close(reader)
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    processor = usage.ru_utime + usage.ru_stime
    return Cost(answered, ended, processor)


class Lab:
    """A state and the poolctl that changes it."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = self.folder / "state.db"
        self.now = MOLD_TIME

    def environment(self):
        settings = {
            "POOLCTL_STATE": str(self.state),
            "POOLCTL_NOW": self.now,
            "POOLCTL_SEED": "1",
            "HOME": str(self.folder),
        }
        return {**os.environ, **settings}

    def measure(self, *arguments):
        """Runs a command and returns what it cost; ends the script if the command fails."""
        return measure([str(self.program), *arguments], self.environment())

    def run(self, *arguments, text=None):
        """Runs a command and returns what it printed; ends the script if the command fails."""
        command = [str(self.program), *arguments]
        ended = subprocess.run(
            command, env=self.environment(), input=text, capture_output=True, text=True
        )
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{ended.stderr}")
        return ended.stdout

    def apply(self, *objects):
        """Stores objects without a pass, in portions, because a manifest has its limit."""
        for first in range(0, len(objects), 1000):
            portion = objects[first : first + 1000]
            self.run("apply", "-qf", "-", "--no-reconcile", text=list_of(portion))

    def import_objects(self, objects):
        """Imports objects into a new state."""
        self.run("import", "-", "-q", text=list_of(objects))

    def exported(self):
        """All objects, jobs and events, and the values of secrets."""
        path = self.folder / "mold.json"
        path.unlink(missing_ok=True)
        self.run("export", "-o", "json", str(path), "--include-secrets")
        return json.loads(path.read_text())["items"]

    def execute(self, script, *values):
        """Runs one SQL statement on the state."""
        connection = sqlite3.connect(self.state)
        with connection:
            connection.execute(script, values)
        connection.close()

    def settle(self):
        """Runs passes at FLEET_TIME until one changes nothing, and closes the log of the state."""
        self.now = FLEET_TIME
        for _ in range(5):
            before = self.revision()
            self.run("reconcile", "-q")
            if self.revision() == before:
                break
        else:
            sys.exit("the fleet does not settle")
        # Files of clusters are copies of what the state holds.
        shutil.rmtree(self.folder / "clusters", ignore_errors=True)
        connection = sqlite3.connect(self.state)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    def revision(self):
        connection = sqlite3.connect(self.state)
        (revision,) = connection.execute("SELECT revision FROM state").fetchone()
        connection.close()
        return revision


def list_of(objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def image_set():
    return {
        "apiVersion": "hive.openshift.io/v1",
        "kind": "ClusterImageSet",
        "metadata": {"name": "x"},
        "spec": {"releaseImage": "a:1"},
    }


def pool(name, size, **spec):
    """A simulated pool whose clusters all run."""
    return {
        "apiVersion": "hive.openshift.io/v1",
        "kind": "ClusterPool",
        "metadata": {"name": name},
        "spec": {
            "size": size,
            "runningCount": size,
            "baseDomain": "example.com",
            "imageSetRef": {"name": "x"},
            "platform": {"none": {}},
            "annotations": FAKE,
            **spec,
        },
    }


def pools_of(size):
    """So many clusters as pools of 20."""
    return [pool(f"p{number}", POOL_SIZE) for number in range(size // POOL_SIZE)]


def mold_of_pool(program, folder):
    """A pool `mold` of 20 clusters that run, with the jobs and events of their installation."""
    lab = Lab(program, folder)
    lab.apply(image_set(), pool("mold", POOL_SIZE))
    lab.run("reconcile", "-q")
    lab.now = FLEET_TIME
    lab.run("reconcile", "-q")
    lab.run("reconcile", "-q")
    return lab.exported()


def cast_pools(mold, count):
    """As many pools of 20 as asked for, named p0, p1, ... Only the first two have the jobs and
    events of their installation: the others are given those of a year."""
    objects = [item for item in mold if item["kind"] == "ClusterImageSet"]
    copied = [item for item in mold if item["kind"] != "ClusterImageSet"]
    lasting = [item for item in copied if item["kind"] not in ("Event", "Job")]
    for number in range(count):
        text = json.dumps(copied if number < 2 else lasting)
        objects.extend(distinct_uids(json.loads(text.replace("mold", f"p{number}")), number))
    return objects


def distinct_uids(objects, number):
    """The same objects with UUIDs whose last eight digits are replaced by a number."""
    text = json.dumps(objects)
    text = re.sub(r'([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{4})[0-9a-f]{8}', rf"\g<1>{number:08x}", text)
    return json.loads(text)


def build_clusters(lab, size):
    """Pools of 20 clusters that run; one of each of the first ten is claimed for an hour, one of
    p10 without an end. History: 4 jobs and 10 events of deleted clusters for each cluster."""
    mold = mold_of_pool(lab.program, lab.folder / "mold")
    lab.import_objects(cast_pools(mold, size // POOL_SIZE))
    lab.settle()
    claimed_pools = min(DUE_CLAIMS, size // POOL_SIZE)
    for number in range(claimed_pools):
        lab.run("claim", f"p{number}", f"due-{number}", "--lifetime", "1h", "-q")
    lab.run("claim", f"p{claimed_pools % (size // POOL_SIZE)}", "kept", "-q")
    add_history(lab, jobs=4 * size, events=10 * size, days=365)
    wait_for_replacements(lab)


def build_gone(lab, size):
    """The same two hours later: ten claims have expired, and their clusters are about to be removed.
    Beside them a cluster waits for Agents, and a claim for an address that nobody gives back."""
    build_clusters(lab, size)
    lab.run("ippool", "create", "lan", "--range", "10.0.0.1-10.0.0.1", "-q")
    lab.run("ip", "claim", "lan", "first", "-q")
    lab.apply(*deployment("spare", 3, 0), waiting_claim())
    lab.settle()
    lab.now = LATER
    lab.run("reconcile", "-q")


def build_ending(lab, size):
    """The same four hours later: a lease ends, a claim waits for its address, and a cluster without a
    pool is being installed."""
    build_clusters(lab, size)
    lab.run("ippool", "create", "lan", "--range", "10.0.0.1-10.0.0.1", "-q")
    lab.run("ip", "claim", "lan", "first", "--for", "4h", "-q")
    secret, cluster = deployment("alone", 1, 0)
    cluster["metadata"]["annotations"]["poolctl.dev/fake-install-duration"] = "24h"
    credentials = {"cloud": "lab", "credentialsSecretRef": {"name": secret["metadata"]["name"]}}
    cluster["spec"]["platform"] = {"openstack": credentials}
    cluster["spec"]["provisioning"]["imageSetRef"] = {"name": image_set()["metadata"]["name"]}
    lab.apply(secret, cluster, waiting_claim())
    lab.settle()
    for minute in range(5):
        lab.now = LATER.replace(":00:", f":0{minute}:")
        lab.run("reconcile", "-q")


def waiting_claim():
    """A claim of an address of the pool `lan`."""
    return {
        "apiVersion": "ipam.metal3.io/v1alpha1",
        "kind": "IPClaim",
        "metadata": {"name": "waits"},
        "spec": {"pool": {"name": "lan"}},
    }


def wait_for_replacements(lab):
    """Finishes the clusters that replace claimed ones, so that nothing is due at FLEET_TIME."""
    lab.run("reconcile", "--wait", "-q")
    lab.settle()


def build_pool(lab, size):
    """One pool of so many clusters."""
    mold = mold_of_pool(lab.program, lab.folder / "mold")
    objects = []
    clusters = []
    for item in mold:
        if item["kind"] == "ClusterPool":
            item["spec"].update(size=size, runningCount=size)
        belongs = item["kind"] in ("ClusterDeployment", "Secret", "Job")
        (clusters if belongs else objects).append(item)
    objects = [item for item in objects if item["kind"] != "Event"]
    text = json.dumps(clusters)
    for number in range(size // POOL_SIZE):
        cast = re.sub(r"mold-([a-z0-9]{5})", rf"mold-\g<1>{number}", text)
        objects.extend(distinct_uids(json.loads(cast), number))
    lab.import_objects(objects)
    lab.settle()


def build_wish(lab, size):
    """Pools of 20 that have no cluster yet."""
    lab.apply(image_set(), *pools_of(size))


def build_begun(lab, size):
    """Pools of 20 whose clusters are being installed; at FLEET_TIME all of them are finished."""
    build_wish(lab, size)
    lab.run("reconcile", "-q")


def customization(number):
    patch = {"op": "replace", "path": "/metadata/name", "value": f"c{number}"}
    return {
        "apiVersion": "hive.openshift.io/v1",
        "kind": "ClusterDeploymentCustomization",
        "metadata": {"name": f"c{number}"},
        "spec": {"installConfigPatches": [patch]},
    }


def build_inventory_wish(lab, size):
    """One pool with an inventory of so many customizations, and no cluster yet."""
    names = [{"name": f"c{number}"} for number in range(size)]
    lab.apply(*map(customization, range(size)))
    lab.apply(image_set(), pool("many", size, inventory=names))


def build_inventory(lab, size):
    """One pool of so many clusters, each with a customization of the inventory."""
    build_inventory_wish(lab, size)
    lab.run("reconcile", "-q")
    lab.settle()


def deployment(name, masters, workers):
    """A simulated cluster without a pool, which is made of Agents."""
    config = {
        "apiVersion": "v1",
        "baseDomain": "lab.test",
        "metadata": {"name": name},
        "controlPlane": {"name": "master", "replicas": masters},
        "compute": [{"name": "worker", "replicas": workers}],
        "networking": {"machineNetwork": [{"cidr": "1.2.0.0/16"}]},
        "platform": {"none": {}},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-config"},
        "stringData": {"install-config.yaml": json.dumps(config)},
    }
    cluster = {
        "apiVersion": "hive.openshift.io/v1",
        "kind": "ClusterDeployment",
        "metadata": {
            "name": name,
            "annotations": {**FAKE, "poolctl.dev/fake-install-duration": "1s"},
        },
        "spec": {
            "baseDomain": "lab.test",
            "clusterName": name,
            "platform": {"none": {}},
            "provisioning": {"installConfigSecretRef": {"name": f"{name}-config"}},
        },
    }
    return [secret, cluster]


def host_inventory(number):
    """What the host number 0 to 9 of a mold says is in it."""
    text = (EXAMPLES / "reports" / "node-1.json").read_text()
    text = text.replace("rack-7-node-1", f"h-mold-{number}")
    text = text.replace("02:00:00:00:00:01", f"02:00:00:aa:bb:0{number}")
    return text.replace("1.2.3.4", f"1.2.254.1{number}")


def report_hosts(lab, numbers):
    for number in numbers:
        lab.run("agent", "register", "--infraenv", "rack", "--id", f"h-mold-{number}", "-q")
        report = host_inventory(number)
        lab.run("agent", "report", f"h-mold-{number}", "--inventory", "-", "-q", text=report)


def mold_of_agents(program, folder):
    """Ten Agents: five are free, five are the nodes of a cluster."""
    lab = Lab(program, folder)
    lab.run("apply", "-qf", str(EXAMPLES / "rack.yaml"))
    lab.run("apply", "-qf", "-", text=list_of(deployment("c-mold", 3, 2)))
    bound = [f"h-mold-{number}" for number in range(5, 10)]
    report_hosts(lab, range(10))
    lab.run("agent", "approve", *(f"h-mold-{number}" for number in range(10)), "-q")
    lab.run("agent", "bind", *bound, "--cluster", "c-mold", "-q")
    report_hosts(lab, range(5, 10))
    lab.run("reconcile", "-q")
    lab.now = FLEET_TIME
    lab.run("reconcile", "-q")
    return lab.exported()


def build_agents(lab, size):
    """Agents of one InfraEnv, half of them free, half of them nodes of clusters of five. The
    cluster `spare` has no node yet."""
    mold = mold_of_agents(lab.program, lab.folder / "mold")
    kept = [item for item in mold if item["kind"] not in ("Event", "Job")]
    objects = [item for item in kept if "-mold" not in json.dumps(item["metadata"])]
    owners = {item["metadata"].get("uid") for item in objects} - {None}
    copied = [
        item
        for item in mold
        if item not in objects and item["kind"] in ("Agent", "ClusterDeployment", "Secret", "Job")
    ]
    text = json.dumps(copied)
    for number in range(size // 10):
        cast = text.replace("mold", str(number))
        cast = cast.replace("aa:bb", f"{number // 256:02x}:{number % 256:02x}")
        cast = cast.replace("1.2.254.", f"1.{2 + number // 250}.{number % 250}.")
        for uid in owners:
            cast = cast.replace(uid, f"OWNER{uid[:8]}")
        cast = json.dumps(distinct_uids(json.loads(cast), number))
        for uid in owners:
            cast = cast.replace(f"OWNER{uid[:8]}", uid)
        objects.extend(json.loads(cast))
    lab.now = FLEET_TIME
    lab.import_objects(objects)
    lab.run("apply", "-qf", str(EXAMPLES / "rack.yaml"), "--no-reconcile")
    lab.apply(*deployment("spare", 3, 0))
    lab.settle()
    report = host_inventory(0).replace("h-mold-0", "h-0-0").replace("aa:bb", "00:00")
    (lab.folder / "report.json").write_text(report.replace("1.2.254.1", "1.2.0.1"))


def build_reported(lab, size):
    """Agents, of which one has reported itself since the last pass."""
    build_agents(lab, size)
    report = str(lab.folder / "report.json")
    lab.run("agent", "report", "h-0-0", "--inventory", report, "-q")


def build_hosts(lab, size):
    """Machines without a management controller that poolctl could reach."""
    hosts = []
    for number in range(size):
        mac = f"02:00:00:{number // 65536:02x}:{number // 256 % 256:02x}:{number % 256:02x}"
        host = {
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "BareMetalHost",
            "metadata": {"name": f"n{number}"},
            "spec": {"online": True, "bootMACAddress": mac, "externallyProvisioned": True},
        }
        hosts.append(host)
    lab.now = FLEET_TIME
    lab.import_objects(hosts)
    lab.settle()


def build_leases(lab, size):
    """One IPPool with so many leases, and one of a claim named `middle`."""
    create = ["ippool", "create", "lan", "--range", "10.0.0.0/11", "--allocation", "sequential"]
    lab.run(*create, "-q")
    half = size // 2
    lab.run("ip", "claim", "lan", "first", "--count", str(half), "-q")
    lab.run("ip", "claim", "lan", "middle", "-q")
    lab.run("ip", "claim", "lan", "last", "--count", str(size - half - 1), "-q")
    lab.settle()


def build_history(lab, size):
    """A pool of 20 beside ten times as many events, of which 1,000 are older than 400 days, and four
    times as many ended jobs."""
    lab.apply(image_set(), pool("lab", POOL_SIZE))
    lab.run("reconcile", "-q")
    lab.settle()
    add_history(lab, jobs=4 * size, events=10 * size, days=365)
    # The oldest events have the lowest numbers.
    lab.execute("UPDATE event SET id = id + 1000000000")
    oldest = FLEET_MICROSECONDS - 500 * DAY_MICROSECONDS
    lab.execute(EVENTS_OF_GONE_CLUSTERS, EXPIRED_EVENTS, 0, oldest, 1_000_000)
    lab.execute("UPDATE state SET pruned = 0")
    begin_chain(lab)


def build_year(lab, size):
    """The fleet of a year: so many clusters in pools of 20, 15 Agents for each hundred clusters,
    182 ended jobs and 500 events for each cluster."""
    mold = mold_of_pool(lab.program, lab.folder / "mold")
    lab.import_objects(cast_pools(mold, size // POOL_SIZE))
    lab.settle()
    agents = Lab(lab.program, lab.folder / "agents")
    build_agents(agents, max(10, size * 15 // 1000 * 10))
    objects = [item for item in agents.exported() if item["kind"] not in ("Event", "Job")]
    objects += lab.exported()
    for path in lab.folder.glob("state.db*"):
        path.unlink()
    lab.import_objects(objects)
    add_history(lab, jobs=182 * size, events=500 * size, days=365)
    lab.settle()


EVENTS_OF_GONE_CLUSTERS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO event (id, time, warning, reason, kind, namespace, name, actor, message)
  SELECT ?2 + i, ?3 + i * ?4, 0, 'JobStarted', 'ClusterDeployment', 'gone-' || i / 3,
    'gone-' || i / 3, 'reconcile', 'provision started (attempt 1)' FROM n"""

# Verb, driver and pool as this poolctl writes them.
ENDED_JOBS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO job (id, verb, object, pool_namespace, pool, driver, attempt, ordinal, started, ended,
    outcome, begun)
  SELECT printf('%08x-0000-0000-0000-000000000000', i), p.verb, 'gone-' || i, p.pool_namespace,
    p.pool, p.driver, 1, 1, ?2 + i * ?3, ?2 + i * ?3 + 1000000, 'succeeded', p.begun
  FROM n, (SELECT verb, driver, pool_namespace, pool, begun FROM job ORDER BY id LIMIT 1) p"""


def add_history(lab, jobs, events, days):
    """Adds ended jobs and events of clusters that are gone, evenly over the last days. A state that
    is given such rows is one that `poolctl doctor` finds nothing wrong with."""
    start = FLEET_MICROSECONDS - days * DAY_MICROSECONDS
    # Events made by commands have low numbers; these are put before them.
    lab.execute("UPDATE event SET id = id + 2000000000")
    step = days * DAY_MICROSECONDS // max(1, events)
    lab.execute(EVENTS_OF_GONE_CLUSTERS, events, EXPIRED_EVENTS, start, step)
    lab.execute(ENDED_JOBS, jobs, start, days * DAY_MICROSECONDS // max(1, jobs))
    begin_chain(lab)
    lab.run("doctor", "-q")


def begin_chain(lab):
    """Events that were written by SQL have no links: the chain of events begins behind them."""
    connection = sqlite3.connect(lab.state)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(event)")}
    if "link" in columns:
        connection.executescript("""
BEGIN;
UPDATE event SET link = NULL;
UPDATE state SET last_link = NULL;
DELETE FROM event_gap;
INSERT INTO event_gap (last, first)
  SELECT id - 1, before + 1
  FROM (SELECT id, coalesce(lag(id) OVER (ORDER BY id), 0) AS before FROM event)
  WHERE id > before + 1;
COMMIT;""")
    connection.close()


BUILDERS = {
    "clusters": build_clusters,
    "gone": build_gone,
    "ending": build_ending,
    "pool": build_pool,
    "wish": build_wish,
    "begun": build_begun,
    "inventory-wish": build_inventory_wish,
    "inventory": build_inventory,
    "agents": build_agents,
    "reported": build_reported,
    "hosts": build_hosts,
    "leases": build_leases,
    "history": build_history,
    "year": build_year,
}


def build(program, fixture, size, folder):
    """Builds a fixture in a new folder; what it is made from is removed."""
    lab = Lab(program, folder)
    BUILDERS[fixture](lab, size)
    for part in ("mold", "agents", "clusters"):
        shutil.rmtree(lab.folder / part, ignore_errors=True)
    begin_log(lab)
    return lab.state


def begin_log(lab):
    """Leaves one commit in the log of a state, as there is nearly always: the first commit to an
    empty log needs one fsync more."""
    connection = sqlite3.connect(lab.state)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with connection:
        connection.execute("UPDATE state SET revision = revision + 1")
    # Closing the connection would fold the log in; its copy is put back.
    copy = lab.folder / "log"
    shutil.copy(f"{lab.state}-wal", copy)
    shutil.copy(lab.state, lab.folder / "copy.db")
    connection.close()
    for path in lab.folder.glob("state.db*"):
        path.unlink()
    (lab.folder / "copy.db").rename(lab.state)
    copy.rename(f"{lab.state}-wal")


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in BUILDERS:
        sys.exit(f"{__doc__}\nfixtures: {' '.join(BUILDERS)}")
    build(default_program(), sys.argv[1], int(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    main()
