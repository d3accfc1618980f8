-- Schema 13: what lists and searches read of an Agent are columns, and its document is in a table beside
-- them, as those of clusters and claims are. A host that reports that it is there rewrites a short row.
-- Columns that SQLite computed from the document were computed anew for each index that was written.
CREATE TABLE agent_body (
  id INTEGER PRIMARY KEY REFERENCES agent ON DELETE CASCADE,
  body TEXT NOT NULL CHECK (json_valid(body)),
  inventory TEXT CHECK (inventory IS NULL OR json_valid(inventory)),
  validations TEXT CHECK (validations IS NULL OR json_valid(validations)),
  checksum INTEGER
) STRICT;
INSERT INTO agent_body SELECT id, body, inventory, validations, checksum FROM agent;
DROP INDEX agent_name;
DROP INDEX agent_identity;
DROP INDEX agent_machine;
DROP INDEX agent_host;
DROP INDEX agent_wanted;
DROP INDEX agent_bound;
DROP INDEX agent_left;
DROP INDEX agent_unapproved;
DROP INDEX agent_of_host;
ALTER TABLE agent DROP COLUMN namespace;
ALTER TABLE agent DROP COLUMN name;
ALTER TABLE agent DROP COLUMN infra_env;
ALTER TABLE agent DROP COLUMN host;
ALTER TABLE agent DROP COLUMN wanted;
ALTER TABLE agent DROP COLUMN bound;
ALTER TABLE agent ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE agent ADD COLUMN created INTEGER;
ALTER TABLE agent ADD COLUMN deleting INTEGER;
ALTER TABLE agent ADD COLUMN hostname TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN state TEXT NOT NULL DEFAULT 'discovering-unbound';
ALTER TABLE agent ADD COLUMN role TEXT NOT NULL DEFAULT 'auto-assign';
ALTER TABLE agent ADD COLUMN approved INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent ADD COLUMN infra_env TEXT;
ALTER TABLE agent ADD COLUMN bare_metal_host TEXT;
ALTER TABLE agent ADD COLUMN machine TEXT;
ALTER TABLE agent ADD COLUMN duplicate_of TEXT;
ALTER TABLE agent ADD COLUMN wanted TEXT;
ALTER TABLE agent ADD COLUMN bound TEXT;
ALTER TABLE agent ADD COLUMN left_cluster TEXT;
ALTER TABLE agent ADD COLUMN cores INTEGER;
ALTER TABLE agent ADD COLUMN memory INTEGER;
ALTER TABLE agent ADD COLUMN disk INTEGER;
-- What indexes need. The program writes all facts in the same transaction; an Agent that cannot be
-- decoded keeps these, and the defaults.
UPDATE agent SET
  namespace = coalesce(body ->> '$.metadata.namespace', ''),
  name = body ->> '$.metadata.name',
  approved = coalesce(body -> '$.spec.approved' = 'true', 0),
  infra_env = body ->> '$.metadata.labels."infraenvs.agent-install.openshift.io"',
  bare_metal_host = body ->> '$.metadata.labels."agent-install.openshift.io/bmh"',
  machine = lower(body ->> '$.status.hostID'),
  wanted = body ->> '$.spec.clusterDeploymentName.name',
  bound = body ->> '$.status.boundTo.name',
  left_cluster = body ->> '$.status.deprovision_info.cluster_name';
ALTER TABLE agent DROP COLUMN body;
ALTER TABLE agent DROP COLUMN inventory;
ALTER TABLE agent DROP COLUMN validations;
ALTER TABLE agent DROP COLUMN checksum;
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
