-- An address of a cluster names the Agent whose host it is for among the owners of its claim. Until
-- now that was read out of the claim's name, CLUSTER-AGENT, or CLUSTER-AGENT-IPPOOL where a pool gives
-- its hosts addresses of several IPPools. The names of existing claims are read here for the last
-- time.
CREATE TEMP TABLE of_host AS
SELECT l.scope, l.address, (
  SELECT a.name FROM agent a JOIN ip_pool p ON p.id = l.pool
  WHERE a.namespace = s.namespace
    AND l.claim IN (o.value ->> '$.name' || '-' || a.name,
                    o.value ->> '$.name' || '-' || a.name || '-' || p.name)
  ORDER BY (l.claim = o.value ->> '$.name' || '-' || a.name) = coalesce((
    SELECT instr(coalesce(c.body ->> '$.metadata.annotations."poolctl.dev/node-addresses-from"',
                          c.body ->> '$.spec.annotations."poolctl.dev/node-addresses-from"', ''), ',') = 0
    FROM cluster k JOIN pool c ON c.namespace = k.pool_namespace AND c.name = k.pool
    WHERE k.name = o.value ->> '$.name'), 1) DESC
  LIMIT 1) AS agent
FROM ip_lease l
JOIN ip_scope s ON s.id = l.scope
JOIN json_each(l.more, '$.notes.claim.ownerReferences') o
WHERE l.more IS NOT NULL
  AND o.value ->> '$.kind' = 'ClusterDeployment'
  AND EXISTS (SELECT 1 FROM json_each(l.more, '$.notes.claim.finalizers') f
              WHERE f.value = 'poolctl.dev/cluster')
  AND l.claim NOT IN (o.value ->> '$.name' || '-api', o.value ->> '$.name' || '-ingress');

UPDATE ip_lease SET more = json_insert(more, '$.notes.claim.ownerReferences[#]', json_object(
  'apiVersion', 'agent-install.openshift.io/v1beta1', 'kind', 'Agent', 'name', h.agent))
FROM of_host h
WHERE h.scope = ip_lease.scope AND h.address = ip_lease.address AND h.agent IS NOT NULL;

DROP TABLE of_host;

-- When another standby was woken for the claims that waited for this one.
ALTER TABLE cluster ADD COLUMN passed_over INTEGER;

-- Events of an object are found by its name, those of a cluster also without its namespace; jobs of a
-- pool in the order they were started; clusters of a namespace.
DROP INDEX event_object;
CREATE INDEX event_object ON event (kind, name, namespace);
DROP INDEX event_cluster;
CREATE INDEX event_cluster ON event (substr(cluster, instr(cluster, '/') + 1))
  WHERE cluster IS NOT NULL;
CREATE INDEX job_pool ON job (pool_namespace, pool, started) WHERE pool IS NOT NULL;
CREATE INDEX cluster_namespace ON cluster (namespace);
