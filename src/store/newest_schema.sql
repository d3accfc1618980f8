-- What all migrations make. A new state needs only this script, which is written by
-- tests/newest_schema.rs. Digest of the migrations: 85edb9d65208a734
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  revision INTEGER NOT NULL,
  last_pass INTEGER NOT NULL,
  wall INTEGER NOT NULL,
  boot TEXT NOT NULL,
  since_boot INTEGER NOT NULL,
  doubted INTEGER NOT NULL,
  off INTEGER NOT NULL,
  pruned INTEGER NOT NULL
, prune_cursor INTEGER NOT NULL DEFAULT 0, lineage TEXT NOT NULL DEFAULT '', address_changes INTEGER NOT NULL DEFAULT 1, told_changes INTEGER NOT NULL DEFAULT 0, tell_failures INTEGER NOT NULL DEFAULT 0, tell_after INTEGER, last_link BLOB, answered_namespace TEXT, answered_pool TEXT) STRICT;
CREATE TABLE secret (
  object INTEGER NOT NULL REFERENCES document ON DELETE CASCADE,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (object, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE cluster (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  namespace TEXT NOT NULL,
  created INTEGER NOT NULL,
  pool_namespace TEXT,
  pool TEXT,
  claim TEXT,
  claimed_at INTEGER,
  customization TEXT,
  version TEXT,
  cluster_name TEXT NOT NULL,
  base_domain TEXT NOT NULL,
  power_since INTEGER,
  started_at INTEGER,
  installed_at INTEGER,
  attempts_limit INTEGER,
  restarts INTEGER NOT NULL,
  failed_at INTEGER,
  failure TEXT,
  ordinal INTEGER NOT NULL,
  stopped INTEGER NOT NULL,
  marked INTEGER NOT NULL,
  protected INTEGER NOT NULL,
  preserve INTEGER NOT NULL,
  held INTEGER NOT NULL,
  deleting INTEGER,
  interrupted INTEGER NOT NULL,
  awake_since INTEGER,
  power_message TEXT,
  powerless INTEGER NOT NULL,
  power_paused INTEGER NOT NULL,
  hibernate_after INTEGER,
  paused INTEGER NOT NULL,
  once INTEGER NOT NULL,
  customization_ref TEXT,
  unmet INTEGER,
  undo_failures INTEGER NOT NULL,
  undo_failed_at INTEGER,
  progress TEXT,
  asked_at INTEGER,
  by_agents INTEGER NOT NULL,
  passed_over INTEGER, driver TEXT NOT NULL DEFAULT 'none', power_wanted TEXT NOT NULL DEFAULT 'Unset', power TEXT NOT NULL DEFAULT 'Unset', lacks_reason TEXT, lacks_message TEXT, failure_reason TEXT, stopped_at INTEGER, delete_after INTEGER, image_set TEXT, attempt_since INTEGER, recipe TEXT, platform_answers_since INTEGER, undo_blocked TEXT, failure_class TEXT, refused_input TEXT, uncounted_failures INTEGER NOT NULL DEFAULT 0, undo_failure TEXT, undo_class TEXT) STRICT;
CREATE TABLE cluster_body (
  id INTEGER PRIMARY KEY REFERENCES cluster ON DELETE CASCADE,
  body TEXT NOT NULL
, checksum INTEGER) STRICT;
CREATE TABLE claim (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  created INTEGER NOT NULL,
  pool TEXT NOT NULL,
  owner TEXT NOT NULL,
  lifetime INTEGER,
  effective INTEGER,
  cluster TEXT UNIQUE,
  pending_since INTEGER,
  running_since INTEGER,
  held INTEGER NOT NULL,
  deleting INTEGER,
  warned INTEGER NOT NULL, pending TEXT NOT NULL DEFAULT 'Initialized', running TEXT NOT NULL DEFAULT 'Initialized', wait_uncounted INTEGER NOT NULL DEFAULT 0,
  UNIQUE (namespace, name)
) STRICT;
CREATE TABLE claim_body (
  id INTEGER PRIMARY KEY REFERENCES claim ON DELETE CASCADE,
  body TEXT NOT NULL
, checksum INTEGER) STRICT;
CREATE TABLE host (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL,
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL,
  mac TEXT AS (lower(body ->> '$.spec.bootMACAddress')) VIRTUAL,
  bmc TEXT AS (body ->> '$.spec.bmc.address') VIRTUAL,
  consumer TEXT AS (body ->> '$.spec.consumerRef.name') VIRTUAL
, checksum INTEGER) STRICT;
CREATE TABLE ip_pool (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL,
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
, checksum INTEGER) STRICT;
CREATE TABLE infra_env_token (
  infra_env INTEGER NOT NULL REFERENCES document ON DELETE CASCADE,
  id TEXT NOT NULL,
  hash TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  revoked INTEGER,
  PRIMARY KEY (infra_env, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE agent (
  id INTEGER PRIMARY KEY,
  secret TEXT,
  seen INTEGER,
  namespace TEXT NOT NULL DEFAULT '', name TEXT NOT NULL DEFAULT '', labels TEXT NOT NULL DEFAULT '{}', created INTEGER, deleting INTEGER, hostname TEXT NOT NULL DEFAULT '', state TEXT NOT NULL DEFAULT 'discovering-unbound', role TEXT NOT NULL DEFAULT 'auto-assign', approved INTEGER NOT NULL DEFAULT 0, infra_env TEXT, bare_metal_host TEXT, machine TEXT, duplicate_of TEXT, wanted TEXT, bound TEXT, left_cluster TEXT, cores INTEGER, memory INTEGER, disk INTEGER, settled_by TEXT) STRICT;
CREATE TABLE agent_mac (
  agent INTEGER NOT NULL REFERENCES agent ON DELETE CASCADE,
  mac TEXT NOT NULL,
  bound INTEGER,
  PRIMARY KEY (agent, mac)
) STRICT, WITHOUT ROWID;
CREATE TABLE ip_count (
  pool INTEGER PRIMARY KEY REFERENCES ip_pool ON DELETE CASCADE,
  used INTEGER NOT NULL,
  outside INTEGER NOT NULL,
  listed INTEGER NOT NULL,
  updated INTEGER
) STRICT;
CREATE TABLE ip_scope (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE ip_network (id INTEGER PRIMARY KEY, body TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE ip_lease (
  scope INTEGER NOT NULL REFERENCES ip_scope,
  address BLOB NOT NULL,
  pool INTEGER NOT NULL REFERENCES ip_pool,
  claim TEXT NOT NULL,
  network INTEGER NOT NULL REFERENCES ip_network,
  created INTEGER NOT NULL,
  more TEXT, cluster TEXT, agent TEXT CHECK (agent IS NULL OR cluster IS NOT NULL), claim_namespace TEXT,
  PRIMARY KEY (scope, address)
) STRICT, WITHOUT ROWID;
CREATE TABLE ip_wait (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  claim TEXT NOT NULL,
  pool TEXT NOT NULL,
  created INTEGER NOT NULL,
  more TEXT NOT NULL, cluster TEXT, agent TEXT CHECK (agent IS NULL OR cluster IS NOT NULL),
  UNIQUE (namespace, claim)
) STRICT;
CREATE TABLE ip_free (
  pool INTEGER NOT NULL REFERENCES ip_pool ON DELETE CASCADE,
  entry INTEGER NOT NULL,
  start BLOB NOT NULL,
  stop BLOB NOT NULL,
  PRIMARY KEY (pool, entry, start)
) STRICT, WITHOUT ROWID;
CREATE TABLE ip_released (
  pool INTEGER NOT NULL REFERENCES ip_pool ON DELETE CASCADE,
  address BLOB NOT NULL,
  released INTEGER NOT NULL,
  PRIMARY KEY (pool, address)
) STRICT, WITHOUT ROWID;
CREATE TABLE ip_history (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL REFERENCES ip_scope,
  address BLOB NOT NULL,
  pool TEXT NOT NULL,
  claim TEXT NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL
) STRICT;
CREATE TABLE lease (
  customization INTEGER PRIMARY KEY REFERENCES document,
  cluster INTEGER UNIQUE REFERENCES cluster ON DELETE SET NULL,
  holder TEXT NOT NULL UNIQUE,
  pool_namespace TEXT,
  pool TEXT
) STRICT;
CREATE TABLE job (
  id TEXT PRIMARY KEY,
  object TEXT NOT NULL,
  pool_namespace TEXT,
  pool TEXT,
  attempt INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER,
  outcome TEXT,
  message TEXT,
  begun INTEGER NOT NULL,
  hosts TEXT
, verb TEXT NOT NULL DEFAULT 'provision', driver TEXT NOT NULL DEFAULT 'none', failure_class TEXT) STRICT;
CREATE TABLE job_host (
  job TEXT NOT NULL REFERENCES job ON DELETE CASCADE,
  host TEXT NOT NULL,
  live INTEGER,
  PRIMARY KEY (job, host)
) STRICT, WITHOUT ROWID;
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  time INTEGER NOT NULL,
  warning INTEGER NOT NULL,
  reason TEXT NOT NULL,
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  actor TEXT NOT NULL,
  message TEXT NOT NULL,
  infra_env TEXT,
  cluster TEXT
, pool TEXT, link BLOB) STRICT;
CREATE TABLE due_scope (
  namespace TEXT NOT NULL,
  pool TEXT NOT NULL,
  -- When something is next to be done by itself; nothing if it only waits.
  due INTEGER,
  -- Whether it was changed, or something that it waits for, and no pass has looked at it since.
  dirty INTEGER NOT NULL,
  -- Whether every pass asks for news: of jobs that run, of clusters that wake.
  polled INTEGER NOT NULL,
  -- Whether it lacks what others may give back: names, addresses, hosts, customizations.
  waits INTEGER NOT NULL,
  PRIMARY KEY (namespace, pool)
) STRICT, WITHOUT ROWID;
CREATE TABLE inventory_entry (
  namespace TEXT NOT NULL,
  customization TEXT NOT NULL,
  pool TEXT NOT NULL,
  PRIMARY KEY (namespace, customization, pool)
) STRICT, WITHOUT ROWID;
CREATE TABLE due_object (
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  -- When something is next to be done by itself.
  due INTEGER,
  -- Whether it was changed and no pass has looked at it since.
  dirty INTEGER NOT NULL, polled INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE event_gap (
  last INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  link BLOB
) STRICT;
CREATE TABLE document (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL,
  checksum INTEGER
) STRICT;
CREATE TABLE agent_body (
  id INTEGER PRIMARY KEY REFERENCES agent ON DELETE CASCADE,
  body TEXT NOT NULL,
  inventory TEXT,
  validations TEXT,
  checksum INTEGER
, conditions TEXT) STRICT;
INSERT INTO state (id, revision, last_pass, wall, boot, since_boot, doubted, off, pruned, prune_cursor, lineage, address_changes, told_changes, tell_failures, tell_after, last_link, answered_namespace, answered_pool) VALUES (1, 0, 0, 0, '', 0, 0, 0, 0, 0, '', 1, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO due_scope (namespace, pool, due, dirty, polled, waits) VALUES ('', '', NULL, 1, 0, 0);
CREATE INDEX cluster_pool ON cluster (pool_namespace, pool);
CREATE UNIQUE INDEX cluster_claim ON cluster (pool_namespace, claim) WHERE claim IS NOT NULL;
CREATE UNIQUE INDEX cluster_dns ON cluster (cluster_name, base_domain);
CREATE INDEX claim_pool ON claim (namespace, pool);
CREATE UNIQUE INDEX host_name ON host (namespace, name);
CREATE UNIQUE INDEX host_mac ON host (mac) WHERE mac IS NOT NULL;
CREATE UNIQUE INDEX host_bmc ON host (bmc) WHERE bmc IS NOT NULL;
CREATE INDEX host_consumer ON host (consumer) WHERE consumer IS NOT NULL;
CREATE UNIQUE INDEX ip_pool_name ON ip_pool (namespace, name);
CREATE INDEX ip_lease_going ON ip_lease (pool) WHERE more ->> '$.deleting' IS NOT NULL;
CREATE INDEX ip_released_when ON ip_released (pool, released);
CREATE INDEX ip_history_address ON ip_history (scope, address);
CREATE UNIQUE INDEX job_live ON job (object) WHERE ended IS NULL;
CREATE INDEX job_live_pool ON job (pool_namespace, pool) WHERE ended IS NULL;
CREATE INDEX job_object ON job (object, started);
CREATE INDEX event_infra_env ON event (infra_env) WHERE infra_env IS NOT NULL;
CREATE INDEX event_cluster ON event (substr(cluster, instr(cluster, '/') + 1))
  WHERE cluster IS NOT NULL;
CREATE INDEX cluster_namespace ON cluster (namespace);
CREATE INDEX job_pool ON job (pool_namespace, pool, verb, started) WHERE pool IS NOT NULL;
CREATE INDEX event_pool ON event (pool, time) WHERE pool IS NOT NULL;
CREATE INDEX due_scope_due ON due_scope (due) WHERE due IS NOT NULL;
CREATE INDEX due_scope_now ON due_scope (namespace) WHERE dirty OR polled;
CREATE INDEX due_scope_waits ON due_scope (namespace) WHERE waits;
CREATE INDEX inventory_entry_pool ON inventory_entry (namespace, pool);
CREATE INDEX ip_lease_cluster ON ip_lease (cluster) WHERE cluster IS NOT NULL;
CREATE INDEX event_replacement ON event (time) WHERE reason IN ('ClusterBroken', 'ClusterStale');
CREATE INDEX job_live_program ON job (started) WHERE ended IS NULL AND driver <> 'fake';
CREATE INDEX due_object_due ON due_object (due) WHERE due IS NOT NULL;
CREATE INDEX ip_lease_expiring ON ip_lease (pool) WHERE more ->> '$.expires' IS NOT NULL;
CREATE INDEX ip_lease_name ON ip_lease (more ->> '$.notes.address.name')
  WHERE more ->> '$.notes.address.name' IS NOT NULL;
CREATE INDEX ip_lease_host ON ip_lease (more ->> '$.host') WHERE more ->> '$.host' IS NOT NULL;
CREATE UNIQUE INDEX ip_lease_claim ON ip_lease (scope, claim) WHERE claim_namespace IS NULL;
CREATE UNIQUE INDEX ip_lease_foreign_claim ON ip_lease (claim_namespace, claim)
  WHERE claim_namespace IS NOT NULL;
CREATE INDEX ip_pool_shared ON ip_pool (id)
  WHERE body ->> '$.metadata.annotations."poolctl.dev/share-with"' IS NOT NULL;
CREATE INDEX ip_lease_owner ON ip_lease (more ->> '$.notes.claim.annotations."poolctl.dev/owner"')
  WHERE more ->> '$.notes.claim.annotations."poolctl.dev/owner"' IS NOT NULL;
CREATE INDEX ip_wait_owner ON ip_wait (more ->> '$.notes.claim.annotations."poolctl.dev/owner"')
  WHERE more ->> '$.notes.claim.annotations."poolctl.dev/owner"' IS NOT NULL;
CREATE UNIQUE INDEX document_name ON document (kind, namespace, name);
CREATE INDEX ip_wait_pool ON ip_wait (pool, namespace);
CREATE UNIQUE INDEX agent_mac_bound ON agent_mac (mac, bound);
CREATE UNIQUE INDEX job_host_live ON job_host (host, live);
CREATE INDEX due_object_now ON due_object (kind) WHERE dirty OR polled;
CREATE INDEX event_object ON event (name, namespace);
CREATE INDEX customization_kept ON document (body ->> '$.status.preservedName')
  WHERE body ->> '$.status.preservedName' IS NOT NULL;
CREATE UNIQUE INDEX agent_name ON agent (namespace, name);
CREATE UNIQUE INDEX agent_identity ON agent (namespace, infra_env, machine)
  WHERE machine IS NOT NULL;
CREATE UNIQUE INDEX agent_bound_machine ON agent (machine)
  WHERE bound IS NOT NULL AND machine IS NOT NULL;
CREATE INDEX agent_machine ON agent (machine);
CREATE INDEX agent_wanted ON agent (wanted) WHERE wanted IS NOT NULL;
CREATE INDEX agent_bound ON agent (bound) WHERE bound IS NOT NULL;
CREATE INDEX agent_left ON agent (left_cluster) WHERE left_cluster IS NOT NULL;
CREATE INDEX agent_unapproved ON agent (namespace, infra_env) WHERE NOT approved;
CREATE INDEX agent_of_host ON agent (namespace, bare_metal_host) WHERE bare_metal_host IS NOT NULL;
