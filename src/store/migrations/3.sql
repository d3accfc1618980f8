-- Values of which there are few are stored by their names, which the database checks, and no more by
-- their places in a list.
DROP INDEX job_pool;

ALTER TABLE cluster ADD COLUMN driver_name TEXT NOT NULL DEFAULT 'none' CHECK (driver_name IN (
  'none', 'fake', 'openshift-install', 'exec', 'ipmitool', 'redfish', 'agent'));
ALTER TABLE cluster ADD COLUMN power_wanted_name TEXT NOT NULL DEFAULT 'Unset' CHECK (
  power_wanted_name IN ('Unset', 'Running', 'Hibernating', 'Starting', 'Stopping', 'FailedToStart',
  'WaitingForMachines', 'WaitingForNodes', 'Pausing', 'WaitingForOperators', 'FailedToStop',
  'WaitingForStop', 'Unsupported', 'Paused'));
ALTER TABLE cluster ADD COLUMN power_name TEXT NOT NULL DEFAULT 'Unset' CHECK (
  power_name IN ('Unset', 'Running', 'Hibernating', 'Starting', 'Stopping', 'FailedToStart',
  'WaitingForMachines', 'WaitingForNodes', 'Pausing', 'WaitingForOperators', 'FailedToStop',
  'WaitingForStop', 'Unsupported', 'Paused'));
-- What its hosts lack: a word for programs and a sentence for people, which were one text.
ALTER TABLE cluster ADD COLUMN lacks_reason TEXT;
ALTER TABLE cluster ADD COLUMN lacks_message TEXT;
ALTER TABLE claim ADD COLUMN pending_name TEXT NOT NULL DEFAULT 'Initialized' CHECK (
  pending_name IN ('Initialized', 'NoClusters', 'Assigned', 'Claimed', 'PoolMissing',
  'PoolDeleting', 'PoolPaused'));
ALTER TABLE claim ADD COLUMN running_name TEXT NOT NULL DEFAULT 'Initialized' CHECK (
  running_name IN ('Initialized', 'Running', 'Resuming', 'Deleting', 'Deleted'));
ALTER TABLE job ADD COLUMN verb_name TEXT NOT NULL DEFAULT 'provision' CHECK (verb_name IN (
  'provision', 'deprovision', 'start', 'stop', 'health', 'cycle', 'state', 'attach', 'eject',
  'inspect', 'add-nodes', 'wipe'));
ALTER TABLE job ADD COLUMN driver_name TEXT NOT NULL DEFAULT 'none' CHECK (driver_name IN (
  'none', 'fake', 'openshift-install', 'exec', 'ipmitool', 'redfish', 'agent'));

UPDATE cluster SET
  driver_name = '["none", "fake", "openshift-install", "exec", "ipmitool", "redfish", "agent"]'
    ->> driver,
  power_wanted_name = '["Unset", "Running", "Hibernating", "Starting", "Stopping", "FailedToStart",
    "WaitingForMachines", "WaitingForNodes", "Pausing", "WaitingForOperators", "FailedToStop",
    "WaitingForStop", "Unsupported", "Paused"]' ->> power_wanted,
  power_name = '["Unset", "Running", "Hibernating", "Starting", "Stopping", "FailedToStart",
    "WaitingForMachines", "WaitingForNodes", "Pausing", "WaitingForOperators", "FailedToStop",
    "WaitingForStop", "Unsupported", "Paused"]' ->> power,
  lacks_reason = substr(lacks, 1, instr(lacks, ': ') - 1),
  lacks_message = substr(lacks, instr(lacks, ': ') + 2);
UPDATE claim SET
  pending_name = '["Initialized", "NoClusters", "Assigned", "Claimed", "PoolMissing",
    "PoolDeleting", "PoolPaused"]' ->> pending,
  running_name = '["Initialized", "Running", "Resuming", "Deleting", "Deleted"]' ->> running;
UPDATE job SET
  verb_name = '["provision", "deprovision", "start", "stop", "health", "cycle", "state", "attach",
    "eject", "inspect", "add-nodes", "wipe"]' ->> verb,
  driver_name = '["none", "fake", "openshift-install", "exec", "ipmitool", "redfish", "agent"]'
    ->> driver;

ALTER TABLE cluster DROP COLUMN driver;
ALTER TABLE cluster RENAME COLUMN driver_name TO driver;
ALTER TABLE cluster DROP COLUMN power_wanted;
ALTER TABLE cluster RENAME COLUMN power_wanted_name TO power_wanted;
ALTER TABLE cluster DROP COLUMN power;
ALTER TABLE cluster RENAME COLUMN power_name TO power;
ALTER TABLE cluster DROP COLUMN lacks;
ALTER TABLE claim DROP COLUMN pending;
ALTER TABLE claim RENAME COLUMN pending_name TO pending;
ALTER TABLE claim DROP COLUMN running;
ALTER TABLE claim RENAME COLUMN running_name TO running;
ALTER TABLE job DROP COLUMN verb;
ALTER TABLE job RENAME COLUMN verb_name TO verb;
ALTER TABLE job DROP COLUMN driver;
ALTER TABLE job RENAME COLUMN driver_name TO driver;

CREATE INDEX job_pool ON job (pool_namespace, pool, verb, started) WHERE pool IS NOT NULL;

-- The hosts that have left a cluster: its addresses are free when none of them may run on.
CREATE INDEX agent_left ON agent (body ->> '$.status.deprovision_info.cluster_name')
  WHERE body ->> '$.status.deprovision_info.cluster_name' IS NOT NULL;
