-- Schema 12: kinds that need no columns of their own share the table `document`. SQLite reads the
-- declaration of every table and index at each start, so fewer are faster.

-- A part of an Agent that is null is absent. The program makes the checksums of these Agents anew.
UPDATE agent SET inventory = nullif(inventory, 'null'), validations = nullif(validations, 'null'),
  checksum = NULL
  WHERE inventory = 'null' OR validations = 'null';

-- What points to a document that does not exist was left by damage. Nothing could be made of it.
DELETE FROM secret WHERE object NOT IN (SELECT id FROM secret_object);
DELETE FROM lease WHERE customization NOT IN (SELECT id FROM customization);
DELETE FROM infra_env_token WHERE infra_env NOT IN (SELECT id FROM infra_env);

-- The tables `secret`, `lease` and `infra_env_token` refer to documents by id. All ids of a kind grow
-- by one distance, which is larger than each of them: no row gets an id that another one still has.
INSERT INTO document (id, kind, body, checksum)
  SELECT s.id + coalesce((SELECT max(id) FROM document), 0) + (SELECT max(id) FROM secret_object),
    'Secret', s.body, s.checksum
  FROM secret_object s;
INSERT INTO document (id, kind, body, checksum)
  SELECT c.id + coalesce((SELECT max(id) FROM document), 0) + (SELECT max(id) FROM customization),
    'ClusterDeploymentCustomization', c.body, c.checksum
  FROM customization c;
INSERT INTO document (id, kind, body, checksum)
  SELECT i.id + coalesce((SELECT max(id) FROM document), 0) + (SELECT max(id) FROM infra_env),
    'InfraEnv', i.body, i.checksum
  FROM infra_env i;
INSERT INTO document (kind, body, checksum)
  SELECT 'Metal3DataTemplate', body, checksum FROM data_template ORDER BY id;
INSERT INTO document (kind, body, checksum)
  SELECT 'NMStateConfig', body, checksum FROM nmstate_config ORDER BY id;
INSERT INTO document (kind, body, checksum)
  SELECT 'ClusterPool', body, checksum FROM pool ORDER BY id;

-- Only the REFERENCES clauses are edited, which change nothing in the pages of a table. A table that
-- is made anew would begin at another page, and `doctor --salvage` looks for the tables of a damaged
-- state where copies from before an upgrade have them.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES secret_object', 'REFERENCES document')
  WHERE name = 'secret';
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES customization', 'REFERENCES document')
  WHERE name = 'lease';
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES infra_env', 'REFERENCES document')
  WHERE name = 'infra_env_token';
PRAGMA writable_schema = RESET;
-- The distance is that between the first ids of a kind, before and after.
UPDATE secret SET object = object
  + (SELECT min(id) FROM document WHERE kind = 'Secret') - (SELECT min(id) FROM secret_object);
UPDATE lease SET customization = customization
  + (SELECT min(id) FROM document WHERE kind = 'ClusterDeploymentCustomization')
  - (SELECT min(id) FROM customization);
UPDATE infra_env_token SET infra_env = infra_env
  + (SELECT min(id) FROM document WHERE kind = 'InfraEnv') - (SELECT min(id) FROM infra_env);

DROP TABLE secret_object;
DROP TABLE customization;
DROP TABLE data_template;
DROP TABLE nmstate_config;
DROP TABLE infra_env;
DROP TABLE pool;
CREATE INDEX customization_kept ON document (body ->> '$.status.preservedName')
  WHERE body ->> '$.status.preservedName' IS NOT NULL;
