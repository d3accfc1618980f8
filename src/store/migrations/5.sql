-- What a pass has to look at. A pool that is not here, or the row without names for all that belongs
-- to no pool, has nothing to do before somebody changes it.
CREATE TABLE due_scope (
  namespace TEXT NOT NULL,
  pool TEXT NOT NULL,
  -- When something is next to be done by itself; nothing if it only waits.
  due INTEGER,
  -- Whether it was changed, or something that it waits for, and no pass has looked at it since.
  dirty INTEGER NOT NULL CHECK (dirty IN (0, 1)),
  -- Whether every pass asks for news: of jobs that run, of clusters that wake.
  polled INTEGER NOT NULL CHECK (polled IN (0, 1)),
  -- Whether it lacks what others may give back: names, addresses, hosts, customizations.
  waits INTEGER NOT NULL CHECK (waits IN (0, 1)),
  PRIMARY KEY (namespace, pool)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_scope_due ON due_scope (due) WHERE due IS NOT NULL;
CREATE INDEX due_scope_now ON due_scope (namespace) WHERE dirty OR polled;
CREATE INDEX due_scope_waits ON due_scope (namespace) WHERE waits;

-- The next pass looks at everything.
INSERT INTO due_scope VALUES ('', '', NULL, 1, 0, 0);

-- The customizations that pools list, so that the pools of a customization are found by it.
CREATE TABLE inventory_entry (
  namespace TEXT NOT NULL,
  customization TEXT NOT NULL,
  pool TEXT NOT NULL,
  PRIMARY KEY (namespace, customization, pool)
) STRICT, WITHOUT ROWID;
CREATE INDEX inventory_entry_pool ON inventory_entry (namespace, pool);

INSERT OR IGNORE INTO inventory_entry
SELECT p.namespace, e.value ->> '$.name', p.name
FROM pool p JOIN json_each(p.body, '$.spec.inventory') e WHERE e.value ->> '$.name' IS NOT NULL;

CREATE TRIGGER inventory_of_new_pool AFTER INSERT ON pool
WHEN NEW.body -> '$.spec.inventory' IS NOT NULL BEGIN
  INSERT OR IGNORE INTO inventory_entry
  SELECT NEW.namespace, e.value ->> '$.name', NEW.name
  FROM json_each(NEW.body, '$.spec.inventory') e WHERE e.value ->> '$.name' IS NOT NULL;
END;
CREATE TRIGGER inventory_of_changed_pool AFTER UPDATE OF body ON pool
WHEN NEW.body -> '$.spec.inventory' IS NOT OLD.body -> '$.spec.inventory' BEGIN
  DELETE FROM inventory_entry WHERE namespace = OLD.namespace AND pool = OLD.name;
  INSERT OR IGNORE INTO inventory_entry
  SELECT NEW.namespace, e.value ->> '$.name', NEW.name
  FROM json_each(NEW.body, '$.spec.inventory') e WHERE e.value ->> '$.name' IS NOT NULL;
END;
CREATE TRIGGER inventory_of_removed_pool AFTER DELETE ON pool BEGIN
  DELETE FROM inventory_entry WHERE namespace = OLD.namespace AND pool = OLD.name;
END;

-- Hive's reason for the last failed installation, and when a cluster was given up.
ALTER TABLE cluster ADD COLUMN failure_reason TEXT;
ALTER TABLE cluster ADD COLUMN stopped_at INTEGER;
UPDATE cluster SET stopped_at = failed_at WHERE stopped;

-- Hive's annotation delete-after had no effect. A cluster that has it keeps on living until its
-- annotations are edited: nobody expects that an update destroys it.
ALTER TABLE cluster ADD COLUMN delete_after INTEGER;

-- The image set of a cluster, which has to be there before it is installed.
ALTER TABLE cluster ADD COLUMN image_set TEXT;
UPDATE cluster SET image_set = nullif((
  SELECT b.body ->> '$.spec.provisioning.imageSetRef.name' FROM cluster_body b WHERE b.id = cluster.id
), '');

-- Since when the present attempt to install a cluster runs. A cluster that has failed waits while
-- this is empty.
ALTER TABLE cluster ADD COLUMN attempt_since INTEGER;
UPDATE cluster SET attempt_since = (
  SELECT max(j.started) FROM job j
  WHERE j.object = cluster.name AND j.verb = 'provision' AND j.ended IS NULL
);
-- Versions of what the pool of a cluster only named. Of clusters that are there already they are not
-- known before their next attempt.
ALTER TABLE cluster ADD COLUMN recipe TEXT;
-- Since when the platform starts machines of other clusters, while those of this one are not started.
ALTER TABLE cluster ADD COLUMN platform_answers_since INTEGER;
-- The addresses of a cluster are found by its name, which is unique in the state. With the scope
-- before it, the index was passed over for another one, which has all leases of the scope.
DROP INDEX ip_lease_cluster;
CREATE INDEX ip_lease_cluster ON ip_lease (cluster) WHERE cluster IS NOT NULL;

-- The hosts of an InfraEnv that nobody has approved.
CREATE INDEX agent_unapproved ON agent (namespace, infra_env)
  WHERE NOT (body ->> '$.spec.approved');

-- The clusters that pools have replaced: few among all events.
CREATE INDEX event_replacement ON event (time) WHERE reason IN ('ClusterBroken', 'ClusterStale');

-- The live jobs that are not simulated: those of drivers that start programs.
CREATE INDEX job_live_program ON job (started) WHERE ended IS NULL AND driver <> 'fake';

-- The last event that a sweep of old records has looked at; 0 while there is no sweep.
ALTER TABLE state ADD COLUMN prune_cursor INTEGER NOT NULL DEFAULT 0;
-- Why a cluster cannot be destroyed before a person has done something; nothing if it can.
ALTER TABLE cluster ADD COLUMN undo_blocked TEXT;
