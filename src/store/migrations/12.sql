-- Schema 12: kinds without columns of their own share one table also if plans know them. SQLite reads the
-- declaration of every table and index whenever a command starts, and compiles each statement once.
-- The new numbers of documents that others point to are higher than all numbers before, so no two are
-- ever the same while they change.
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

-- Tables stay where they are, for whoever salvages a damaged state: only what they refer to changes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES secret_object', 'REFERENCES document')
  WHERE name = 'secret';
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES customization', 'REFERENCES document')
  WHERE name = 'lease';
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES infra_env', 'REFERENCES document')
  WHERE name = 'infra_env_token';
PRAGMA writable_schema = RESET;
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
