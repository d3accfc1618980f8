-- Who has an address of a cluster is kept in columns: the cluster, and the Agent of the host that it
-- is for. Until now that was read out of the metadata of the claim, which still shows it.
ALTER TABLE ip_lease ADD COLUMN cluster TEXT;
ALTER TABLE ip_lease ADD COLUMN agent TEXT CHECK (agent IS NULL OR cluster IS NOT NULL);
ALTER TABLE ip_wait ADD COLUMN cluster TEXT;
ALTER TABLE ip_wait ADD COLUMN agent TEXT CHECK (agent IS NULL OR cluster IS NOT NULL);

UPDATE ip_lease SET cluster = (
  SELECT o.value ->> '$.name' FROM json_each(more, '$.notes.claim.ownerReferences') o
  WHERE o.value ->> '$.kind' = 'ClusterDeployment' ORDER BY o.key LIMIT 1)
WHERE EXISTS (SELECT 1 FROM json_each(more, '$.notes.claim.finalizers') f
  WHERE f.value = 'poolctl.dev/cluster');
UPDATE ip_wait SET cluster = (
  SELECT o.value ->> '$.name' FROM json_each(more, '$.notes.claim.ownerReferences') o
  WHERE o.value ->> '$.kind' = 'ClusterDeployment' ORDER BY o.key LIMIT 1)
WHERE EXISTS (SELECT 1 FROM json_each(more, '$.notes.claim.finalizers') f
  WHERE f.value = 'poolctl.dev/cluster');

UPDATE ip_lease SET agent = (
    SELECT o.value ->> '$.name' FROM json_each(more, '$.notes.claim.ownerReferences') o
    WHERE o.value ->> '$.kind' = 'Agent' ORDER BY o.key LIMIT 1),
  more = json_set(more,
    '$.notes.claim.finalizers', json((
      SELECT json_group_array(f.value) FROM json_each(more, '$.notes.claim.finalizers') f
      WHERE f.value <> 'poolctl.dev/cluster')),
    '$.notes.claim.ownerReferences', json((
      SELECT json_group_array(json(o.value))
      FROM json_each(more, '$.notes.claim.ownerReferences') o
      WHERE o.value ->> '$.kind' NOT IN ('ClusterDeployment', 'Agent'))))
WHERE cluster IS NOT NULL;
UPDATE ip_wait SET agent = (
    SELECT o.value ->> '$.name' FROM json_each(more, '$.notes.claim.ownerReferences') o
    WHERE o.value ->> '$.kind' = 'Agent' ORDER BY o.key LIMIT 1),
  more = json_set(more,
    '$.notes.claim.finalizers', json((
      SELECT json_group_array(f.value) FROM json_each(more, '$.notes.claim.finalizers') f
      WHERE f.value <> 'poolctl.dev/cluster')),
    '$.notes.claim.ownerReferences', json((
      SELECT json_group_array(json(o.value))
      FROM json_each(more, '$.notes.claim.ownerReferences') o
      WHERE o.value ->> '$.kind' NOT IN ('ClusterDeployment', 'Agent'))))
WHERE cluster IS NOT NULL;

-- The addresses of a cluster.
CREATE INDEX ip_lease_cluster ON ip_lease (scope, cluster) WHERE cluster IS NOT NULL;

-- Which pool a new claim asked for a cluster, beside the sentence that says so: the history of a pool is
-- found by it. Of earlier events it is read out of the sentence here for the last time.
ALTER TABLE event ADD COLUMN pool TEXT;
UPDATE event SET pool = namespace || '/' || substr(message, length('Asks for a cluster of pool ') + 1)
WHERE kind = 'ClusterClaim' AND reason = 'Created'
  AND substr(message, 1, length('Asks for a cluster of pool ')) = 'Asks for a cluster of pool ';
CREATE INDEX event_pool ON event (pool, time) WHERE pool IS NOT NULL;
