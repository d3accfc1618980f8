-- Schema 7: leases that end, hosts by what they hold, numbers of templates, pools that are shared,
-- classifications of Agents, and what a state knows of itself.

-- Leases of addresses that end by themselves. A pass finds them without looking at all leases.
CREATE INDEX ip_lease_expiring ON ip_lease (pool) WHERE more ->> '$.expires' IS NOT NULL;
-- The names that IPAddresses were given, which follow from no pool and no address. Few have one.
CREATE INDEX ip_lease_name ON ip_lease (more ->> '$.notes.address.name')
  WHERE more ->> '$.notes.address.name' IS NOT NULL;

-- The host that a claim of an address is for, so that the addresses of a host are found by it.
UPDATE ip_lease SET more = json_set(more, '$.host', (
  SELECT o.value ->> '$.name' FROM json_each(ip_lease.more, '$.notes.claim.ownerReferences') o
  WHERE o.value ->> '$.kind' = 'BareMetalHost' LIMIT 1
)) WHERE more LIKE '%"BareMetalHost"%';
UPDATE ip_wait SET more = json_set(more, '$.host', (
  SELECT o.value ->> '$.name' FROM json_each(ip_wait.more, '$.notes.claim.ownerReferences') o
  WHERE o.value ->> '$.kind' = 'BareMetalHost' LIMIT 1
)) WHERE more LIKE '%"BareMetalHost"%';
CREATE INDEX ip_lease_host ON ip_lease (more ->> '$.host') WHERE more ->> '$.host' IS NOT NULL;

-- The numbers that machines have of data templates, and the requests for them.
CREATE TABLE metal3_data (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX metal3_data_name ON metal3_data (namespace, name);
CREATE TABLE metal3_data_claim (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX metal3_data_claim_name ON metal3_data_claim (namespace, name);
-- Hosts that were there before poolctl wiped disks by itself are wiped only if an annotation says so.
UPDATE host SET body = json_set(
  json_insert(body, '$.status', json('{}')), '$.status.knownBeforeWiping', json('true')
);

-- Hosts of clusters that were left running: nobody switches them off for having been switched on.
UPDATE host SET body = json_remove(body, '$.status.switchedOnFor')
WHERE body ->> '$.status.switchedOnFor' IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM cluster c WHERE c.name = host.body ->> '$.status.switchedOnFor');

-- Which state this is: its backups have the same number, and no other state has it. It is drawn when
-- a state is made or migrated.
ALTER TABLE state ADD COLUMN lineage TEXT NOT NULL DEFAULT '';

-- Pools that namespaces share. A lease is one of the pool's namespace, so that an address is leased
-- once over all of them; the namespace of its claim is here if it is another one.
ALTER TABLE ip_lease ADD COLUMN claim_namespace TEXT;
DROP INDEX ip_lease_claim;
CREATE UNIQUE INDEX ip_lease_claim ON ip_lease (scope, claim) WHERE claim_namespace IS NULL;
CREATE UNIQUE INDEX ip_lease_foreign_claim ON ip_lease (claim_namespace, claim)
  WHERE claim_namespace IS NOT NULL;
CREATE INDEX ip_wait_of_name ON ip_wait (pool);
CREATE INDEX ip_pool_shared ON ip_pool (id)
  WHERE body ->> '$.metadata.annotations."poolctl.dev/share-with"' IS NOT NULL;

-- The program that is told of changed addresses: how many commits have changed some, up to which of
-- them it was told, how often it has failed since, and when it is tried again.
ALTER TABLE state ADD COLUMN address_changes INTEGER NOT NULL DEFAULT 1;
ALTER TABLE state ADD COLUMN told_changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN tell_failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN tell_after INTEGER;

-- Labels that hosts get whose inventory meets a query.
CREATE TABLE agent_classification (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL
) STRICT;
CREATE UNIQUE INDEX agent_classification_name ON agent_classification (namespace, name);

-- The beginning of the SHA-256 of each document, by which doctor finds one that has changed without
-- poolctl. Documents from before have none until they are written. A later migration that changes
-- documents sets their checksums to NULL.
ALTER TABLE pool ADD COLUMN checksum INTEGER;
ALTER TABLE customization ADD COLUMN checksum INTEGER;
ALTER TABLE image_set ADD COLUMN checksum INTEGER;
ALTER TABLE secret_object ADD COLUMN checksum INTEGER;
ALTER TABLE namespace ADD COLUMN checksum INTEGER;
ALTER TABLE role_binding ADD COLUMN checksum INTEGER;
ALTER TABLE settings ADD COLUMN checksum INTEGER;
ALTER TABLE cluster_body ADD COLUMN checksum INTEGER;
ALTER TABLE claim_body ADD COLUMN checksum INTEGER;
ALTER TABLE host ADD COLUMN checksum INTEGER;
ALTER TABLE ip_pool ADD COLUMN checksum INTEGER;
ALTER TABLE data_template ADD COLUMN checksum INTEGER;
ALTER TABLE infra_env ADD COLUMN checksum INTEGER;
ALTER TABLE nmstate_config ADD COLUMN checksum INTEGER;
ALTER TABLE agent ADD COLUMN checksum INTEGER;
ALTER TABLE metal3_data ADD COLUMN checksum INTEGER;
ALTER TABLE metal3_data_claim ADD COLUMN checksum INTEGER;
ALTER TABLE agent_classification ADD COLUMN checksum INTEGER;

-- The chain of events: each link is the hash of an event and of the link before it, so that an event
-- that was changed or removed is found. Events from before have no link. The last link is kept in the
-- state, which shows whether the newest events are there.
ALTER TABLE event ADD COLUMN link BLOB;
ALTER TABLE state ADD COLUMN last_link BLOB;
-- Events that were removed because they were old, as stretches of their numbers, each with the link
-- of its last event, by which the chain goes on.
CREATE TABLE event_gap (
  last INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  link BLOB
) STRICT;
INSERT INTO event_gap (last, first)
SELECT id - 1, before + 1
FROM (SELECT id, coalesce(lag(id) OVER (ORDER BY id), 0) AS before FROM event)
WHERE id > before + 1;
