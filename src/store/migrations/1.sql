-- The first schema. Documents are JSON in the wire format; clusters and claims, which are many,
-- keep what a pass reads in columns, and the rest beside.
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
) STRICT;
INSERT INTO state VALUES (1, 0, 0, 0, '', 0, 0, 0, 0);

CREATE TABLE pool (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX pool_name ON pool (namespace, name);

CREATE TABLE customization (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX customization_name ON customization (namespace, name);
CREATE INDEX customization_kept ON customization (body ->> '$.status.preservedName')
  WHERE body ->> '$.status.preservedName' IS NOT NULL;

CREATE TABLE image_set (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX image_set_name ON image_set (namespace, name);

CREATE TABLE secret_object (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX secret_object_name ON secret_object (namespace, name);

-- The only table with secret values.
CREATE TABLE secret (
  object INTEGER NOT NULL REFERENCES secret_object ON DELETE CASCADE,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (object, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX namespace_name ON namespace (namespace, name);

CREATE TABLE role_binding (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX role_binding_name ON role_binding (namespace, name);

CREATE TABLE settings (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX settings_name ON settings (namespace, name);

CREATE TABLE cluster (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  namespace TEXT NOT NULL,
  created INTEGER NOT NULL,
  driver INTEGER NOT NULL,
  pool_namespace TEXT,
  pool TEXT,
  claim TEXT,
  claimed_at INTEGER,
  customization TEXT,
  version TEXT,
  cluster_name TEXT NOT NULL,
  base_domain TEXT NOT NULL,
  power_wanted INTEGER NOT NULL,
  power INTEGER NOT NULL,
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
  lacks TEXT
) STRICT;
CREATE INDEX cluster_pool ON cluster (pool_namespace, pool);
CREATE UNIQUE INDEX cluster_claim ON cluster (pool_namespace, claim) WHERE claim IS NOT NULL;
CREATE UNIQUE INDEX cluster_dns ON cluster (cluster_name, base_domain);

CREATE TABLE cluster_body (
  id INTEGER PRIMARY KEY REFERENCES cluster ON DELETE CASCADE,
  body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

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
  pending INTEGER NOT NULL,
  pending_since INTEGER,
  running INTEGER NOT NULL,
  running_since INTEGER,
  held INTEGER NOT NULL,
  deleting INTEGER,
  warned INTEGER NOT NULL,
  UNIQUE (namespace, name)
) STRICT;
CREATE INDEX claim_pool ON claim (namespace, pool);

CREATE TABLE claim_body (
  id INTEGER PRIMARY KEY REFERENCES claim ON DELETE CASCADE,
  body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

-- A machine is one host, whoever lists it.
CREATE TABLE host (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL,
  mac TEXT AS (lower(body ->> '$.spec.bootMACAddress')) VIRTUAL,
  bmc TEXT AS (body ->> '$.spec.bmc.address') VIRTUAL,
  consumer TEXT AS (body ->> '$.spec.consumerRef.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX host_name ON host (namespace, name);
CREATE UNIQUE INDEX host_mac ON host (mac) WHERE mac IS NOT NULL;
CREATE UNIQUE INDEX host_bmc ON host (bmc) WHERE bmc IS NOT NULL;
CREATE INDEX host_consumer ON host (consumer) WHERE consumer IS NOT NULL;

CREATE TABLE ip_pool (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX ip_pool_name ON ip_pool (namespace, name);

CREATE TABLE data_template (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX data_template_name ON data_template (namespace, name);

-- What hosts are booted from, and what admits them.
CREATE TABLE infra_env (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX infra_env_name ON infra_env (namespace, name);

CREATE TABLE infra_env_token (
  infra_env INTEGER NOT NULL REFERENCES infra_env ON DELETE CASCADE,
  id TEXT NOT NULL,
  hash TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  revoked INTEGER,
  PRIMARY KEY (infra_env, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE nmstate_config (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX nmstate_config_name ON nmstate_config (namespace, name);

-- A machine may be seen in several environments; it is bound once.
CREATE TABLE agent (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  secret TEXT,
  seen INTEGER,
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL,
  infra_env TEXT AS (body ->> '$.metadata.labels."infraenvs.agent-install.openshift.io"') VIRTUAL,
  host TEXT AS (lower(body ->> '$.status.hostID')) VIRTUAL,
  wanted TEXT AS (body ->> '$.spec.clusterDeploymentName.name') VIRTUAL,
  bound TEXT AS (body ->> '$.status.boundTo.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX agent_name ON agent (namespace, name);
CREATE UNIQUE INDEX agent_identity ON agent (namespace, infra_env, host) WHERE host IS NOT NULL;
CREATE UNIQUE INDEX agent_machine ON agent (host) WHERE bound IS NOT NULL AND host IS NOT NULL;
CREATE INDEX agent_host ON agent (host);
CREATE INDEX agent_wanted ON agent (wanted) WHERE wanted IS NOT NULL;
CREATE INDEX agent_bound ON agent (bound) WHERE bound IS NOT NULL;

-- The addresses of an agent's interfaces: what is bound is known by them, too.
CREATE TABLE agent_mac (
  agent INTEGER NOT NULL REFERENCES agent ON DELETE CASCADE,
  mac TEXT NOT NULL,
  bound INTEGER,
  PRIMARY KEY (agent, mac)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_mac_mac ON agent_mac (mac);
CREATE UNIQUE INDEX agent_mac_bound ON agent_mac (mac, bound) WHERE bound IS NOT NULL;

-- What is counted of a pool, and whether its free addresses are listed.
CREATE TABLE ip_count (
  pool INTEGER PRIMARY KEY REFERENCES ip_pool ON DELETE CASCADE,
  used INTEGER NOT NULL,
  outside INTEGER NOT NULL,
  listed INTEGER NOT NULL,
  updated INTEGER
) STRICT;

-- Leases are many: what repeats in them is a number.
CREATE TABLE ip_scope (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE ip_network (id INTEGER PRIMARY KEY, body TEXT NOT NULL UNIQUE) STRICT;

-- An address is leased once in its namespace, a claim has one address. The family comes before the
-- bytes of an address.
CREATE TABLE ip_lease (
  scope INTEGER NOT NULL REFERENCES ip_scope,
  address BLOB NOT NULL,
  pool INTEGER NOT NULL REFERENCES ip_pool,
  claim TEXT NOT NULL,
  network INTEGER NOT NULL REFERENCES ip_network,
  created INTEGER NOT NULL,
  more TEXT,
  PRIMARY KEY (scope, address)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX ip_lease_claim ON ip_lease (scope, claim);
CREATE INDEX ip_lease_going ON ip_lease (pool) WHERE more ->> '$.deleting' IS NOT NULL;

-- Claims without an address.
CREATE TABLE ip_wait (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  claim TEXT NOT NULL,
  pool TEXT NOT NULL,
  created INTEGER NOT NULL,
  more TEXT NOT NULL,
  UNIQUE (namespace, claim)
) STRICT;
CREATE INDEX ip_wait_pool ON ip_wait (namespace, pool);

-- Free addresses of pools that need them in order, from start to stop: follows from the leases.
CREATE TABLE ip_free (
  pool INTEGER NOT NULL REFERENCES ip_pool ON DELETE CASCADE,
  entry INTEGER NOT NULL,
  start BLOB NOT NULL,
  stop BLOB NOT NULL,
  PRIMARY KEY (pool, entry, start)
) STRICT, WITHOUT ROWID;

-- When addresses were released, in pools where that matters.
CREATE TABLE ip_released (
  pool INTEGER NOT NULL REFERENCES ip_pool ON DELETE CASCADE,
  address BLOB NOT NULL,
  released INTEGER NOT NULL,
  PRIMARY KEY (pool, address)
) STRICT, WITHOUT ROWID;
CREATE INDEX ip_released_when ON ip_released (pool, released);

-- Who had an address, and when.
CREATE TABLE ip_history (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL REFERENCES ip_scope,
  address BLOB NOT NULL,
  pool TEXT NOT NULL,
  claim TEXT NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL
) STRICT;
CREATE INDEX ip_history_address ON ip_history (scope, address);

-- A customization has one cluster, a cluster one customization. A cluster that is left running
-- when its object goes keeps the lease: then there is no row for it any more.
CREATE TABLE lease (
  customization INTEGER PRIMARY KEY REFERENCES customization,
  cluster INTEGER UNIQUE REFERENCES cluster ON DELETE SET NULL,
  holder TEXT NOT NULL UNIQUE,
  pool_namespace TEXT,
  pool TEXT
) STRICT;

CREATE TABLE job (
  id TEXT PRIMARY KEY,
  verb INTEGER NOT NULL,
  object TEXT NOT NULL,
  pool_namespace TEXT,
  pool TEXT,
  driver INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER,
  outcome TEXT,
  message TEXT,
  begun INTEGER NOT NULL,
  hosts TEXT
) STRICT;

-- The hosts that a job works on: at most one live job on each.
CREATE TABLE job_host (
  job TEXT NOT NULL REFERENCES job ON DELETE CASCADE,
  host TEXT NOT NULL,
  live INTEGER,
  PRIMARY KEY (job, host)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX job_host_live ON job_host (host, live) WHERE live IS NOT NULL;
CREATE INDEX job_host_host ON job_host (host);

CREATE UNIQUE INDEX job_live ON job (object) WHERE ended IS NULL;
CREATE INDEX job_live_pool ON job (pool_namespace, pool) WHERE ended IS NULL;
CREATE INDEX job_object ON job (object, started);

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
) STRICT;
CREATE INDEX event_object ON event (kind, namespace, name);
CREATE INDEX event_infra_env ON event (infra_env) WHERE infra_env IS NOT NULL;
CREATE INDEX event_cluster ON event (cluster) WHERE cluster IS NOT NULL;
