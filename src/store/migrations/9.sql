-- ConfigMaps: files that are no secret, such as the manifests that are installed with a cluster.
CREATE TABLE config_map (
  id INTEGER PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  namespace TEXT NOT NULL AS (coalesce(body ->> '$.metadata.namespace', '')) VIRTUAL,
  name TEXT NOT NULL AS (body ->> '$.metadata.name') VIRTUAL,
  checksum INTEGER
) STRICT;
CREATE UNIQUE INDEX config_map_name ON config_map (namespace, name);
